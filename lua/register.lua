#!lua flags=allow-oom
-- register: begin a session under a new identity, or restore the record of one (it was deleted or evicted).
-- Why one script: a process that is alive has a record of its queues, or its jobs could not be found when it
-- dies.
-- After Redis has lost a process, an idle wait from before may still bring that process a job. So the former
-- identity gets a record again, and the janitor that recovers this process reads the former lists too.
-- KEYS     1 record  2 alive  3 tombstones  4 record of the former identity (our own again, if there was none)
--          5 since when a process has always been alive
-- ARGV     1 identity  2 ttl_ms  3 former identity, or our own  then the record's fields and values
-- Returns  {"registered" | "taken" (draw another identity), seconds, microseconds}
-- Repeat   "taken": a lost reply costs an identity, not a job
-- Cost     O(1)
local record, alive, tombstones, former_record, up = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local identity, ttl_ms, former, fields_at = ARGV[1], tonumber(ARGV[2]), ARGV[3], 4

-- include note_up
local time = redis.call('TIME')
-- Other scripts write fields too; without ttl_ms the record has been lost.
if redis.call('HEXISTS', record, 'ttl_ms') == 1 or redis.call('ZSCORE', tombstones, identity) then
  return { 'taken', tonumber(time[1]), tonumber(time[2]) }
end

local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if former ~= identity then
  if redis.call('EXISTS', former_record) == 0 and not redis.call('ZSCORE', tombstones, former) then
    redis.call('HSET', former_record, 'ttl_ms', ttl_ms, 'mark', 0, unpack(ARGV, fields_at))
  end
  -- The last registration has the former identity's jobs: the reply to an earlier one may have been lost.
  redis.call('HSET', former_record, 'successor', identity)
end
redis.call('HSET', record, 'ttl_ms', ttl_ms, 'mark', 0, unpack(ARGV, fields_at))
note_up(alive, up, now_ms)
redis.call('ZADD', alive, now_ms + ttl_ms, identity)
return { 'registered', tonumber(time[1]), tonumber(time[2]) }
