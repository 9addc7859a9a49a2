#!lua flags=allow-oom
-- renew: prolong the locks of running unique jobs for another TTL, if the jobs still own them.
-- Why one script: if a lock has expired and another job has taken it, it must not be prolonged.
-- KEYS     1 index of locks  then locks
-- ARGV     for each lock: digest, owner, ms to hold it on
-- Returns  how many were still their own
-- Repeat   prolongs again
-- Cost     O(locks * log locks of all)
local index = KEYS[1]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- MGET: a key that is no lock reads as none, and belongs to no job.
local values = redis.pcall('MGET', unpack(KEYS, 2))
if values.err then
  return values
end
local renewed = {}
for job = 1, #ARGV, 3 do
  local number, owner = (job + 2) / 3, ARGV[job + 1]
  local value = values[number]
  if value and string.sub(value, 2, #owner + 1) == owner then
    redis.call('PEXPIRE', KEYS[1 + number], ARGV[job + 2])
    renewed[#renewed + 1] = now_ms + ARGV[job + 2]
    renewed[#renewed + 1] = ARGV[job]
  end
end
if #renewed > 0 then
  redis.pcall('ZADD', index, unpack(renewed)) -- pcall: the index is only for listing
end
return #renewed / 2
