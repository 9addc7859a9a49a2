#!lua flags=allow-oom
-- mark: mark jobs as cancelled, for the processes that hold them or will take them.
-- Why one script: each mark is newer than all marks before (see newer_mark). The answer to an operator that a
-- job is stopping depends on its mark, so no mark is removed for a newer one: beyond their maximum, marks are
-- refused.
-- KEYS     1 marks
-- ARGV     1 microseconds to keep a mark  2 marks at most  then members: a jid, or a jid, a line feed and the
--          text that identifies one job (see Mark)
-- Returns  the marks' score: microseconds by Redis' clock, or more; or the error FULL, and no mark was made
-- Repeat   marks them anew; the later mark counts
-- Cost     O(members * log marks)
local marks = KEYS[1]
local keep, most = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include must_be
-- include newer_mark
local wrong = must_be(marks, 'zset', 'ZADD', marks, '0', '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local at = newer_mark(marks, time)
local score, expired = string.format('%.0f', at), at - keep
local count = redis.call('ZCOUNT', marks, '(' .. string.format('%.0f', expired), '+inf')
for member = 3, #ARGV do
  if (tonumber(redis.call('ZSCORE', marks, ARGV[member]) or '-inf') or expired) <= expired then
    count = count + 1
  end
end
for _, none in ipairs({ '', '\n' }) do -- these are no marks
  if (tonumber(redis.call('ZSCORE', marks, none) or '-inf') or expired) > expired then
    count = count - 1
  end
end
if count > most then
  return redis.error_reply('FULL ' .. most .. ' cancelled jobs are marked, and no more can be')
end
for member = 3, #ARGV do
  redis.call('ZADD', marks, score, ARGV[member])
end
redis.call('ZADD', marks, score, '')
redis.call('ZREMRANGEBYSCORE', marks, '-inf', string.format('%.0f', expired))
redis.call('EXPIRE', marks, math.ceil(keep / 1000000))
return at
