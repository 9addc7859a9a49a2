#!lua flags=allow-oom
-- presence: read which living sessions have their subscription, a page at a time.
-- Why one script: whether a session has its subscription and its expiry are of the same instant, by Redis'
-- clock. Only an absent session's expiry is read: to make a text of it costs as much as all else about one.
-- KEYS     1 alive
-- ARGV     1 what the channels of all sessions begin with  2 identity of the reader  3 how many to skip
--          4 sessions at most
-- Returns  {seconds, microseconds, subscriptions of the reader, {identities of sessions that have not lapsed},
--          {positions of those without a subscription, from 1}, {their expiries in ms, as texts}}
-- Repeat   the same, as long as none sends a heartbeat or comes and goes
-- Cost     O(log processes + sessions skipped + sessions read)
local alive = KEYS[1]
local channel, me, first, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local time = redis.call('TIME')
local now_ms = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local found = redis.call('ZRANGE', alive, now_ms, '+inf', 'BYSCORE', 'LIMIT', first, most)
local channels, absent, expiries = { channel .. me }, {}, {}
for at = 1, #found do
  channels[at + 1] = channel .. found[at]
end
local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
for at = 1, #found do
  if counts[2 * at + 2] == 0 then
    absent[#absent + 1], expiries[#expiries + 1] = at, redis.call('ZSCORE', alive, found[at])
  end
end
return { tonumber(time[1]), tonumber(time[2]), counts[2], found, absent, expiries }
