#!lua flags=allow-oom
-- take_quarantined: move one quarantined job, which was running in too many crashes, into a list of its own.
-- Why one script: if it crashes its process again, that crash must be its own. So it goes only to a process
-- that has no other job in Redis, and take refuses that process while it runs the quarantined one.
-- KEYS     1 alive  2 paused  3 record  4 list of the quarantined job that it runs
--          then pairs, all that the process has: quarantine list, working list
-- ARGV     1 identity  2 how many of the queues to take from: those that come first  then the queues' bare
--          names
-- Returns  {"taken", position of the queue, job} | {"empty"} | {"busy"} (it has a job) | {"fenced"} (it is
--          not alive)
-- Repeat   "busy": the job of a lost reply stays in its list until its process finds it there
-- Cost     O(queues)
local alive, paused, record, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local identity, from, names_at, pairs_at = ARGV[1], tonumber(ARGV[2]), 2, 3

local time = redis.call('TIME')
local expiry = tonumber(redis.call('ZSCORE', alive, identity) or 0)
if expiry <= time[1] * 1000 + math.floor(time[2] / 1000) then
  return { 'fenced' }
end
if redis.call('EXISTS', running) == 1 then
  return { 'busy' }
end
for position = 1, #ARGV - names_at do
  -- pcall: a key that is no list holds no job.
  local length = redis.pcall('LLEN', KEYS[pairs_at + 1 + 2 * position])
  if type(length) == 'number' and length > 0 then
    return { 'busy' }
  end
end

local resting = redis.call('SMISMEMBER', paused, unpack(ARGV, names_at + 1, names_at + from))
for position = 1, from do
  local quarantine = KEYS[pairs_at + 2 * position]
  local waiting = resting[position] == 0 and redis.pcall('LLEN', quarantine) or 0
  if type(waiting) == 'number' and waiting > 0 then
    -- The list names no queue, and no janitor should have to parse its name.
    redis.call('HSET', record, 'quarantine_queue', ARGV[names_at + position])
    return { 'taken', position, redis.call('LMOVE', quarantine, running, 'RIGHT', 'LEFT') }
  end
end
return { 'empty' }
