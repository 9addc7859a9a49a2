#!lua flags=allow-oom
-- release: free a lock, whatever job holds it and whatever type its key has.
-- An operator asks for it. The poller asks for it with the value that it expects, if the lock's job is lost.
-- Why one script: the reply names the job whose lock was freed; with two steps, another job could take the lock
-- in between. The job that held the lock runs all the same, and its end then changes no lock. The extra run
-- that a refused duplicate caused is dropped; the value in the reply shows it.
-- KEYS     1 lock  2 index of locks
-- ARGV     1 digest  2 expected value, "" for any
-- Returns  {"released", its value, "" for a key that is not a string} | {"free"} (or not as expected)
-- Repeat   {"free"}, unless another job has taken it meanwhile
-- Cost     O(log locks of all)
local lock, index = KEYS[1], KEYS[2]
local digest, expected = ARGV[1], ARGV[2]

local kind = redis.call('TYPE', lock).ok
local value = kind == 'string' and redis.call('GET', lock) or ''
if expected ~= '' and value ~= expected then
  return { 'free' }
end
if kind ~= 'none' then
  redis.call('DEL', lock)
end
redis.pcall('ZREM', index, digest) -- pcall: the index is only for listing
if kind == 'none' then
  return { 'free' }
end
return { 'released', value }
