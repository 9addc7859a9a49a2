#!lua flags=allow-oom
-- presence: read which living sessions have their subscription, a page at a time.
-- Why one script: the expiry of a session and its subscription are of the same instant, by Redis' clock.
-- KEYS     1 alive
-- ARGV     1 what the channels of all sessions begin with  2 identity of the reader  3 how many to skip
--          4 sessions at most
-- Returns  {seconds, microseconds, subscriptions of the reader, {identities of sessions that have not lapsed},
--          {their expiries in ms, as texts}, {their subscriptions}}
-- Repeat   the same, as long as none sends a heartbeat or comes and goes
-- Cost     O(log processes + sessions skipped + sessions read)
local alive = KEYS[1]
local channel, me, first, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local time = redis.call('TIME')
local now_ms = string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local found = redis.call('ZRANGE', alive, now_ms, '+inf', 'BYSCORE', 'LIMIT', first, most, 'WITHSCORES')
local names, expiries, channels, counts = {}, {}, { channel .. me }, {}
for at = 1, #found, 2 do
  names[#names + 1], expiries[#expiries + 1] = found[at], found[at + 1]
  channels[#channels + 1] = channel .. found[at]
end
local answer = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
for at = 4, #answer, 2 do
  counts[#counts + 1] = answer[at]
end
return { tonumber(time[1]), tonumber(time[2]), answer[2], names, expiries, counts }
