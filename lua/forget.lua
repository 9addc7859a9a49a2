#!lua flags=allow-oom
-- forget: delete the tombstone and the record of a process, once nothing can arrive in its lists any more.
-- Why one script: if the tombstone went while a list holds a job, no process would find that job.
-- KEYS     1 tombstones  2 record  then its working lists, the list of its quarantined job and its ledger
--          of slots
-- ARGV     1 identity  2 ms for which a tombstone stays at least
-- Returns  "forgotten" | "kept"
-- Repeat   "kept"
-- Cost     O(queues)
local tombstones, record = KEYS[1], KEYS[2]
local identity, stands_ms = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local died = tonumber(redis.call('ZSCORE', tombstones, identity))
if not died or died + stands_ms > time[1] * 1000 + math.floor(time[2] / 1000) then
  return 'kept'
end
for list = 3, #KEYS do
  if redis.call('EXISTS', KEYS[list]) == 1 then
    return 'kept'
  end
end
redis.call('ZREM', tombstones, identity)
redis.call('DEL', record)
return 'forgotten'
