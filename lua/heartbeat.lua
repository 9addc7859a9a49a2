#!lua flags=allow-oom
-- heartbeat: keep a session alive for one more TTL; report lapsed processes, free leases and lists that exist.
-- Why one script: a process that was declared dead must never renew its session, or two would own its jobs.
-- KEYS     1 record  2 alive  3 tombstones  4 signals (Ruby's remote control)  5 marks of cancelled jobs
--          6 since when a process has always been alive  7… leases, then keys that may exist
-- ARGV     1 identity  2 ttl_ms  3 names at most  4 signals at most  5 channel of the session's subscription
--          then for each lease how many ms this process would hold it
-- Returns  {"alive" | "dead" (for ever) | "unknown" (Redis has lost the session) | "unrecorded" (it has lost
--          only the record: register again under this identity), seconds, microseconds, {lapsed identities},
--          {signals}, how many are alive or lapsed, {positions of the leases that no process holds, from 1},
--          how many of the keys that may exist do, score of the newest mark or empty, subscriptions to the
--          channel on this server, -1 if the user may not ask}
-- Repeat   renews again; a signal whose reply was lost is gone, as in Ruby
-- Cost     O(log processes + names + leases + keys)
local record, alive, tombstones, signals, marks, up = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local identity, ttl_ms, most, most_signals = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, holds_ms = ARGV[5], { unpack(ARGV, 6) }
local leases, maybe = { unpack(KEYS, 7, 6 + #holds_ms) }, { unpack(KEYS, 7 + #holds_ms) }

-- include busy
-- include note_up
-- include subscribers
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local state = 'alive'
if redis.call('ZSCORE', tombstones, identity) then
  state = 'dead'
elseif redis.call('HEXISTS', record, 'ttl_ms') == 0 then
  state = redis.call('ZSCORE', alive, identity) and 'unrecorded' or 'unknown'
end
local received = {}
if state == 'alive' then
  note_up(alive, up, now_ms)
  redis.call('ZADD', alive, now_ms + ttl_ms, identity)
  while #received < most_signals do
    local signal = redis.pcall('RPOP', signals)
    if type(signal) ~= 'string' then
      break
    end
    received[#received + 1] = signal
  end
end
-- The latest first: processes that cannot be recovered stay, and must not hide those that lapse now.
local lapsed = redis.call('ZRANGE', alive, now_ms, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, most)
-- An expiry further off than a TTL was written before the clock was set back. A process with a longer TTL
-- than ours is named here too; recover checks again.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', alive, '(' .. string.format('%.0f', now_ms + ttl_ms), '+inf', 'LIMIT', 0, most)) do
  lapsed[#lapsed + 1] = name
end
local unheld = {}
for at, lease in ipairs(leases) do
  if not busy(lease, holds_ms[at]) then
    unheld[#unheld + 1] = at
  end
end
local there = #maybe > 0 and redis.call('EXISTS', unpack(maybe)) or 0
local newest = redis.pcall('ZSCORE', marks, '') -- a key of another type has no marks
return { state, tonumber(time[1]), tonumber(time[2]), lapsed, received, redis.call('ZCARD', alive), unheld, there,
  type(newest) == 'string' and newest or '', subscribers(channel) }
