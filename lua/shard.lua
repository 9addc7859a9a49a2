#!lua flags=allow-oom
-- shard: record which one of several keyspaces this is, and which of them have jobs with a bound key.
-- Why one script: of two programs that disagree, one records both fields and the other one is refused.
-- KEYS     1 shard
-- ARGV     1 name  2 the sorted names of the shards for bound keys, with spaces between
-- Returns  the name and the names that are recorded, which are others if a program with another list was first
-- Repeat   the same
-- Cost     O(1)
local shard = KEYS[1]
local name, bound = ARGV[1], ARGV[2]

-- include must_be
local wrong = must_be(shard, 'hash', 'HSET', shard, 'name', name)
if wrong then
  return wrong
end
if redis.call('EXISTS', shard) == 0 then
  redis.call('HSET', shard, 'name', name, 'bound', bound)
end
return redis.call('HMGET', shard, 'name', 'bound')
