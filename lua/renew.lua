#!lua flags=allow-oom
-- renew: hold on to the locks of unique jobs in hand, those that are still their own, for another TTL.
-- Why one script: a lock that ran out and that another job has taken since must not be prolonged for that one.
-- KEYS     1 index of locks  then locks
-- ARGV     for each lock: digest, owner, ms to hold it on
-- Returns  how many were still their own
-- Again    holds on again
-- Cost     O(locks * log locks of all)
local index = KEYS[1]

-- include must_be
local wrong = must_be(index, 'zset', 'ZADD', index, '0', '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local held = 0
for job = 1, #ARGV, 3 do
  local lock = KEYS[2 + (job - 1) / 3]
  -- pcall: what is not a lock is nobody's.
  local value = redis.pcall('GET', lock)
  if type(value) == 'string' and string.sub(value, 2, #ARGV[job + 1] + 1) == ARGV[job + 1] then
    redis.call('PEXPIRE', lock, ARGV[job + 2])
    redis.call('ZADD', index, now_ms + ARGV[job + 2], ARGV[job])
    held = held + 1
  end
end
return held
