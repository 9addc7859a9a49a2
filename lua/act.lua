#!lua flags=allow-oom
-- act: move jobs as an operator says: from where they wait to the backs of queues, to the dead set, or out for good.
-- Why one script: the job leaves one place and comes to the other in one step, so of all who reach for it, workers, pollers
-- and other operators, one gets it. Who came late is told so.
-- It is given the bytes of each job, also of those that end here, since whatever belongs to a job that ends must end with it.
-- KEYS     1 where they wait  2 dead  3 queues (the set of names)  then queue lists
-- ARGV     1 what the first key is: "set" | "oldest" | "youngest" (a list, and near which end of it they are)
--          then groups: fate, number of the queue list (0 for none), the queue's bare name, how many jobs, and for each its
--          bytes; with the fate "queue" also its new bytes
--          fate: "queue" | "dead" (as they are) | "gone"
-- Returns  positions of jobs that were not there any more; nothing was written for them
-- Again    finds none of them there
-- Cost     O(jobs * log set), or O(jobs * distance from that end of the list)
local from, dead, queues = KEYS[1], KEYS[2], KEYS[3]
local kind = ARGV[1]
local groups, at = {}, 2
while at <= #ARGV do
  local list, count = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 3])
  local group = { fate = ARGV[at], list = KEYS[3 + list], name = ARGV[at + 2], count = count, first = at + 4 }
  group.step = group.fate == 'queue' and 2 or 1
  groups[#groups + 1] = group
  at = group.first + count * group.step
end

-- include must_be
local wrong
if kind == 'set' then
  wrong = must_be(from, 'zset', 'ZREM', from, '')
else
  wrong = must_be(from, 'list', 'LREM', from, '1', '')
end
for _, group in ipairs(groups) do
  if not wrong and group.fate == 'queue' then
    wrong = must_be(group.list, 'list', 'LPUSH', group.list, '')
  elseif not wrong and group.fate == 'dead' then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  end
end
if wrong then
  return wrong
end

local function leaves(job)
  if kind == 'set' then
    return redis.call('ZREM', from, job) == 1
  end
  return redis.call('LREM', from, kind == 'oldest' and -1 or 1, job) == 1
end

local time = redis.call('TIME')
local answer, position = {}, 0
for _, group in ipairs(groups) do
  local arrived = false
  for index = 0, group.count - 1 do
    local arg = group.first + index * group.step
    position = position + 1
    if not leaves(ARGV[arg]) then
      answer[#answer + 1] = position
    elseif group.fate == 'dead' then
      -- A microsecond apart: Ruby's readers tell members of a set apart by their score.
      redis.call('ZADD', dead, time[1] + (time[2] + position) / 1000000, ARGV[arg])
    elseif group.fate == 'queue' then
      redis.call('LPUSH', group.list, ARGV[arg + 1])
      arrived = true
    end
  end
  if arrived then
    redis.pcall('SADD', queues, group.name) -- the jobs are there, whoever may list them
  end
end
return answer
