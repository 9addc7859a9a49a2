#!lua flags=allow-oom
-- mark: mark jobs as cancelled, for the processes that hold them or will take them.
-- Why one script: each mark is newer than all marks before, whatever the clock does, so a process that has read
-- up to a mark misses none. The empty member has the score of the newest mark, also after that was removed;
-- heartbeats read it.
-- KEYS     1 marks
-- ARGV     1 microseconds to keep a mark  2 marks at most  then members: a jid, or a jid, a line feed and the
--          text of the job's created_at
-- Returns  seconds, microseconds: Redis' time
-- Repeat   marks them anew; the later mark counts
-- Cost     O(members * log marks)
local marks = KEYS[1]
local keep, most = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include must_be
local wrong = must_be(marks, 'zset', 'ZADD', marks, '0', '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local newest = tonumber(redis.call('ZSCORE', marks, '') or '0')
local at = math.max(time[1] * 1000000 + time[2], newest + 1)
local score = string.format('%.0f', at)
for member = 3, #ARGV do
  redis.call('ZADD', marks, score, ARGV[member])
end
redis.call('ZADD', marks, score, '')
redis.call('ZREMRANGEBYSCORE', marks, '-inf', string.format('%.0f', at - keep))
redis.call('ZREMRANGEBYRANK', marks, 0, -most - 2)
redis.call('EXPIRE', marks, math.ceil(keep / 1000000))
return { tonumber(time[1]), tonumber(time[2]) }
