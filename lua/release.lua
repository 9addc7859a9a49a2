#!lua flags=allow-oom
-- release: free a lock by an operator's word, whoever holds it.
-- Why one script: the answer says whose lock was freed, and in two steps that could be the next one's.
-- The job that held it runs all the same, and its end then changes no lock; nor is it followed by the run that a duplicate
-- asked for, of which the value that is answered tells.
-- KEYS     1 lock  2 index of locks
-- ARGV     1 digest
-- Returns  {"released", its value} | {"free"}
-- Again    {"free"}, unless another job has taken it meanwhile
-- Cost     O(log locks of all)
local lock, index = KEYS[1], KEYS[2]
local digest = ARGV[1]

-- include must_be
local wrong = must_be(lock, 'string', 'DEL', lock) or must_be(index, 'zset', 'ZREM', index, '')
if wrong then
  return wrong
end
local value = redis.call('GET', lock)
redis.call('ZREM', index, digest)
if not value then
  return { 'free' }
end
redis.call('DEL', lock)
return { 'released', value }
