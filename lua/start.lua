#!lua flags=allow-oom
-- start: say of unique jobs in hand that their run begins now.
-- Why one script: until_executing, the lock is free from here on, and only if the job is still ours and the lock still its own;
-- until_executed, a duplicate that is refused from here on is not served by this run, and may have to be run for later.
-- It changes a lock from "-" to "s" once, at the first start: a job that is run again has served nobody in between.
-- KEYS     1 index of locks  then, by their positions, lists in hand and locks
-- ARGV     for each job: position of its list, its bytes, position of its lock, digest, owner, "release" | "mark"
-- Returns  {"started", positions of jobs that are not in our list any more ...}
-- Again    changes nothing more
-- Cost     O(jobs * length of the list)
local index = KEYS[1]

-- include must_be
local wrong = must_be(index, 'zset', 'ZREM', index, '')
local checked, locks = {}, {}
for job = 1, #ARGV, 6 do
  local list, lock = KEYS[tonumber(ARGV[job])], KEYS[tonumber(ARGV[job + 2])]
  if not checked[list] then
    wrong = wrong or must_be(list, 'list', 'LPOS', list, '')
  end
  -- Locks differ by their digest alone: who may write one may write all.
  wrong = wrong or #locks == 0 and (may('SETRANGE', lock, '0', '') or may('DEL', lock)) or nil
  checked[list], locks[#locks + 1] = true, lock
end
-- MGET: a key that is no lock reads as none, and is nobody's.
local values = not wrong and redis.pcall('MGET', unpack(locks)) or {}
if wrong or values.err then
  return wrong or values
end

local answer, freed, digests = { 'started' }, {}, {}
for job = 1, #ARGV, 6 do
  local number, owner = (job + 5) / 6, ARGV[job + 4]
  local value, lock = values[number], locks[number]
  if not redis.call('LPOS', KEYS[tonumber(ARGV[job])], ARGV[job + 1]) then
    answer[#answer + 1] = number
  elseif value and string.sub(value, 2, #owner + 1) == owner then
    if ARGV[job + 5] == 'release' then
      freed[#freed + 1], digests[#digests + 1] = lock, ARGV[job + 3]
    elseif string.sub(value, 1, 1) == '-' then
      redis.call('SETRANGE', lock, 0, 's')
    end
  end
end
if #freed > 0 then
  redis.call('DEL', unpack(freed))
  redis.call('ZREM', index, unpack(digests))
end
return answer
