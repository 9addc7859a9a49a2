#!lua flags=allow-oom
-- start: say of unique jobs in hand that their run begins now.
-- Why one script: until_executing, the lock is free from here on, and only if the job is still ours and the lock still its own;
-- until_executed, a duplicate that is refused from here on is not served by this run, and may have to be run for later.
-- It changes a lock from "-" to "s" once, at the first start: a job that is run again has served nobody in between.
-- KEYS     1 index of locks  then for each group the list in hand, and its jobs' locks
-- ARGV     groups: "release" | "mark", how many jobs, and for each: its bytes, digest, owner
-- Returns  {"started", positions of jobs that are not in our list any more ...}
-- Again    changes nothing more
-- Cost     O(jobs * length of the list)
local index = KEYS[1]
local groups, at, key = {}, 1, 2
while at <= #ARGV do
  local group = { release = ARGV[at] == 'release', count = tonumber(ARGV[at + 1]), first = at + 2, list = KEYS[key], lock = key + 1 }
  groups[#groups + 1] = group
  at, key = group.first + 3 * group.count, group.lock + group.count
end

-- include must_be
for _, group in ipairs(groups) do
  local lock = KEYS[group.lock]
  -- Locks differ by their digest alone: who may write one may write all.
  local wrong = must_be(group.list, 'list', 'LPOS', group.list, '') or may('SETRANGE', lock, '0', '') or may('DEL', lock)
  -- MGET: a key that is no lock reads as none, and is nobody's.
  group.values = wrong or redis.pcall('MGET', unpack(KEYS, group.lock, group.lock + group.count - 1))
  if wrong or group.values.err then
    return group.values
  end
end

local answer, position, freed, unlisted = { 'started' }, 0, {}, {}
for _, group in ipairs(groups) do
  for job = 0, group.count - 1 do
    local arg, lock, value = group.first + 3 * job, KEYS[group.lock + job], group.values[job + 1]
    local owner = ARGV[arg + 2]
    position = position + 1
    if not redis.call('LPOS', group.list, ARGV[arg]) then
      answer[#answer + 1] = position
    elseif value and string.sub(value, 2, #owner + 1) == owner then
      if group.release then
        freed[#freed + 1], unlisted[#unlisted + 1] = lock, ARGV[arg + 1]
      elseif string.sub(value, 1, 1) == '-' then
        redis.call('SETRANGE', lock, 0, 's')
      end
    end
  end
end
if #freed > 0 then
  redis.call('DEL', unpack(freed))
  redis.pcall('ZREM', index, unpack(unlisted)) -- it is for people
end
return answer
