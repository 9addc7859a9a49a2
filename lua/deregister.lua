#!lua flags=allow-oom
-- deregister: end the session and leave a tombstone that names its lists.
-- Why one script: a blocked move may still bring a job after this, so the lists must stay known to the
-- janitor at every instant. Only entries for Ruby's pages are deleted here.
-- KEYS     1 record  2 alive  3 tombstones  4 processes  5 process hash  6 work  7 workers  then its working
--          lists and its alone list
-- ARGV     1 identity
-- Returns  {"left", jobs still in its lists}: if there are any, the process counts as lapsed, and a janitor
--          recovers it at once
-- Again    the same
-- Cost     O(queues)
local record, alive, tombstones, processes, hash, work, workers =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local identity = ARGV[1]

local left = 0
for list = 8, #KEYS do
  -- pcall: a key that is not a list holds no job, and must not prevent the exit.
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
