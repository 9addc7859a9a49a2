#!lua flags=allow-oom
-- deregister: end a session, with a tombstone that names its lists.
-- Why one script: from this moment on a janitor must watch our lists (Redis may still execute a blocked move).
-- So nothing is deleted here except the keys that are only for people.
-- KEYS     1 record  2 alive  3 tombstones  4 processes  5 process hash  6 work  7 workers  then our working
--          lists and the list of our quarantined job
-- ARGV     1 identity
-- Returns  {"left", jobs still in our lists}: with any, we count as lapsed, and a janitor recovers them at once
-- Repeat   the same
-- Cost     O(queues)
local record, alive, tombstones, processes, hash, work, workers =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local identity = ARGV[1]

local left = 0
for list = 8, #KEYS do
  -- pcall: a key that is no list holds no job, and must keep no process from leaving.
  local length = redis.pcall('LLEN', KEYS[list])
  left = left + (type(length) == 'number' and length or 0)
end

redis.call('SREM', processes, identity)
redis.call('DEL', hash, work, workers)
if redis.call('EXISTS', record) == 0 then
  return { 'left', left }
end
local time = redis.call('TIME')
redis.call('ZADD', tombstones, 'NX', time[1] * 1000 + math.floor(time[2] / 1000), identity)
if left > 0 then
  redis.call('ZADD', alive, 0, identity)
else
  redis.call('HSET', record, 'emptied', 1)
  redis.call('ZREM', alive, identity)
end
return { 'left', left }
