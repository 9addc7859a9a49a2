#!lua flags=allow-oom
-- release: free a lock for an operator, whichever job holds it and whatever type its key has.
-- Why one script: the reply names the holder of the freed lock; in two steps another job could have taken it.
-- The job that held it runs all the same, and its end then changes no lock. The extra run that a duplicate
-- asked for does not take place; the returned value shows whether one was due.
-- KEYS     1 lock  2 index of locks
-- ARGV     1 digest
-- Returns  {"released", its value, "" for a key of another type} | {"free"}
-- Again    {"free"}, unless another job has taken it meanwhile
-- Cost     O(log of all locks)
local lock, index = KEYS[1], KEYS[2]
local digest = ARGV[1]

local kind = redis.call('TYPE', lock).ok
local value = kind == 'string' and redis.call('GET', lock) or ''
if kind ~= 'none' then
  redis.call('DEL', lock)
end
redis.pcall('ZREM', index, digest) -- pcall: the index is only for listing
if kind == 'none' then
  return { 'free' }
end
return { 'released', value }
