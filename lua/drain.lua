#!lua flags=allow-oom
-- drain: let a process stop taking jobs, to become empty for a queue's quarantined jobs, if few others do so.
-- Why one script: if all processes stopped at the same time, none would run the queue's jobs. Only speed
-- depends on this script: take_quarantined guards the quarantined job.
-- KEYS     1 processes that drain  2 processes that asked
-- ARGV     1 identity  2 ms to drain at most  3 ms for which a request counts  4 ms for which others drain at
--          most
-- Returns  "held" (ours, also if it was before) | "busy" (a quarter of those that asked, or one, drain already)
-- Repeat   prolongs it
-- Cost     O(log processes + expired)
local draining, asked = KEYS[1], KEYS[2]
local identity, drain_ms, wish_ms, longest_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', asked, now_ms, identity)
redis.call('PEXPIRE', asked, wish_ms)
redis.call('ZREMRANGEBYSCORE', asked, '-inf', now_ms - wish_ms)
redis.call('ZREMRANGEBYSCORE', draining, '-inf', now_ms)
-- A time that is too far ahead (a request after now, or a drain longer than the maximum) was written before the
-- clock was set back.
redis.call('ZREMRANGEBYSCORE', asked, '(' .. string.format('%.0f', now_ms), '+inf')
redis.call('ZREMRANGEBYSCORE', draining, '(' .. string.format('%.0f', now_ms + math.max(drain_ms, longest_ms)), '+inf')
local quarter = math.max(math.floor(redis.call('ZCARD', asked) / 4), 1)
if not redis.call('ZSCORE', draining, identity) and redis.call('ZCARD', draining) >= quarter then
  return 'busy'
end
redis.call('ZADD', draining, now_ms + drain_ms, identity)
redis.call('PEXPIRE', draining, math.max(drain_ms, longest_ms))
return 'held'
