#!lua flags=allow-oom
-- release: free a lock by an operator's word, whoever holds it, and whatever its key is.
-- Why one script: the answer says whose lock was freed, and in two steps that could be the next one's.
-- The job that held it runs all the same, and its end then changes no lock; nor is it followed by the run that a duplicate
-- asked for, of which the value that is answered tells.
-- KEYS     1 lock  2 index of locks
-- ARGV     1 digest
-- Returns  {"released", its value, "" for a key that is no string} | {"free"}
-- Again    {"free"}, unless another job has taken it meanwhile
-- Cost     O(log locks of all)
local lock, index = KEYS[1], KEYS[2]
local digest = ARGV[1]

local kind = redis.call('TYPE', lock).ok
local value = kind == 'string' and redis.call('GET', lock) or ''
if kind ~= 'none' then
  redis.call('DEL', lock)
end
redis.pcall('ZREM', index, digest) -- it is for people
if kind == 'none' then
  return { 'free' }
end
return { 'released', value }
