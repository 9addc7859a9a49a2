#!lua flags=allow-oom
-- unmark: take back marks of cancelled jobs that have ended.
-- Why one script: a mark that was made anew meanwhile stays. And taking marks back is an event that is newer
-- than all marks: processes read it as they read marks, and then read all marks again. Otherwise a process
-- would drop a job because of a mark that it had read before the mark was taken back.
-- KEYS     1 marks
-- ARGV     1 the highest score of the marks to take back  2 whether processes must drop them (0|1)  then
--          members as in mark
-- Returns  how many were taken back
-- Repeat   takes none back
-- Cost     O(members * log marks)
local marks = KEYS[1]
local last, tell = tonumber(ARGV[1]), ARGV[2] == '1'

-- include must_be
-- include newer_mark
local wrong = must_be(marks, 'zset', 'ZREM', marks, '') or may('ZADD', marks, '0', '')
if wrong then
  return wrong
end
local taken_back = 0
for member = 3, #ARGV do
  if (tonumber(redis.call('ZSCORE', marks, ARGV[member]) or 'inf') or math.huge) <= last then
    taken_back = taken_back + redis.call('ZREM', marks, ARGV[member])
  end
end
if tell and taken_back > 0 then
  local score = string.format('%.0f', newer_mark(marks, redis.call('TIME')))
  redis.call('ZADD', marks, score, '', score, '\n')
end
return taken_back
