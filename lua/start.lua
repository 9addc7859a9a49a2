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
for job = 1, #ARGV, 6 do
  local list, lock = KEYS[tonumber(ARGV[job])], KEYS[tonumber(ARGV[job + 2])]
  local wrong = must_be(list, 'list', 'LPOS', list, '') or must_be(lock, 'string', 'SETRANGE', lock, '0', '')
    or must_be(lock, 'string', 'DEL', lock) or must_be(index, 'zset', 'ZREM', index, '')
  if wrong then
    return wrong
  end
end

local answer = { 'started' }
for job = 1, #ARGV, 6 do
  local lock = KEYS[tonumber(ARGV[job + 2])]
  local value = redis.call('GET', lock)
  if not redis.call('LPOS', KEYS[tonumber(ARGV[job])], ARGV[job + 1]) then
    answer[#answer + 1] = (job + 5) / 6
  elseif value and string.sub(value, 2, #ARGV[job + 4] + 1) == ARGV[job + 4] then
    if ARGV[job + 5] == 'release' then
      redis.call('DEL', lock)
      redis.call('ZREM', index, ARGV[job + 3])
    elseif string.sub(value, 1, 1) == '-' then
      redis.call('SETRANGE', lock, 0, 's')
    end
  end
end
return answer
