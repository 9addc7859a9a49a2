#!lua flags=allow-oom
-- register: bring a process to life under a name that nobody has had.
-- Why one script: a process that is alive has a record of its queues, or its jobs could not be found when it dies.
-- KEYS     1 record  2 alive  3 tombstones
-- ARGV     1 identity  2 ttl_ms  then the record's fields and values
-- Returns  {"registered" | "taken" (draw another name), seconds, microseconds}
-- Again    "taken": a reply that was lost costs a name, not a job
-- Cost     O(1)
local record, alive, tombstones = KEYS[1], KEYS[2], KEYS[3]
local identity, ttl_ms = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
if redis.call('EXISTS', record) == 1 or redis.call('ZSCORE', tombstones, identity) then
  return { 'taken', tonumber(time[1]), tonumber(time[2]) }
end

local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', record, 'ttl_ms', ttl_ms, 'mark', 0, unpack(ARGV, 3))
redis.call('ZADD', alive, now_ms + ttl_ms, identity)
return { 'registered', tonumber(time[1]), tonumber(time[2]) }
