#!lua flags=allow-oom
-- unlist: remove a few expired locks from the index of locks.
-- Why a script: a lock that was taken again meanwhile has a new score, and must stay. A lock that is freed
-- leaves the index in the same step, but an expired lock does not, such as that of a job that a Ruby process
-- ran or Sidekiq's pages deleted. Without this script the index would grow for ever.
-- KEYS     1 index of locks
-- ARGV     1 ms for which they have been expired at least  2 how many at most
-- Returns  how many it removed
-- Repeat   removes what is left
-- Cost     O(removed * log locks of all)
local index = KEYS[1]
local since_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include must_be
local wrong = must_be(index, 'zset', 'ZREM', index, '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lapsed = redis.call('ZRANGEBYSCORE', index, '-inf', now_ms - since_ms, 'LIMIT', 0, most)
if #lapsed == 0 then
  return 0
end
return redis.call('ZREM', index, unpack(lapsed))
