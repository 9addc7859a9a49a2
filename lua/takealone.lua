#!lua flags=allow-oom
-- takealone: take one quarantined job, which was running in too many crashes, into a list of its own.
-- Why one script: if the process crashes again, this job must be the only one that was running. So Redis
-- itself checks that all lists of the process are empty, and take refuses the process while the job is there.
-- KEYS     1 alive  2 paused  3 record  4 alone list  then pairs, for all queues of the process: quarantine
--          list, working list
-- ARGV     1 identity  then the queues' bare names
-- Returns  {"taken", position of the queue, job} | {"empty"} | {"busy"} (it has jobs) | {"fenced"} (it is not
--          alive)
-- Again    "busy": after a lost reply the job is in the alone list until its process finds it there
-- Cost     O(queues)
local alive, paused, record, alone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local identity, count, pairs_at = ARGV[1], #ARGV - 1, 3

local time = redis.call('TIME')
local expiry = tonumber(redis.call('ZSCORE', alive, identity) or 0)
if expiry <= time[1] * 1000 + math.floor(time[2] / 1000) then
  return { 'fenced' }
end
if redis.call('EXISTS', alone) == 1 then
  return { 'busy' }
end
for position = 1, count do
  -- pcall: a key that is not a list holds no job.
  local length = redis.pcall('LLEN', KEYS[pairs_at + 1 + 2 * position])
  if type(length) == 'number' and length > 0 then
    return { 'busy' }
  end
end

local resting = redis.call('SMISMEMBER', paused, unpack(ARGV, 2))
for position = 1, count do
  local suspects = KEYS[pairs_at + 2 * position]
  local waiting = resting[position] == 0 and redis.pcall('LLEN', suspects) or 0
  if type(waiting) == 'number' and waiting > 0 then
    -- The list's name does not contain the queue, and no key name is parsed: the record names the queue for
    -- recover.
    redis.call('HSET', record, 'alone', ARGV[1 + position])
    return { 'taken', position, redis.call('LMOVE', suspects, alone, 'RIGHT', 'LEFT') }
  end
end
return { 'empty' }
