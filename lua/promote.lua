#!lua flags=allow-oom
-- promote: move due jobs from a sorted set to the backs of their queues, or of their queues' suspects.
-- Why one script: a job is in the set or in its queue. Ruby takes it out first and pushes it then, and loses it in between.
-- Two pollers at once do each job once: what another has moved is not there any more.
-- KEYS     1 set (schedule or retry)  2 dead  3 queues (the set of names)  4.. queue lists or suspects lists
-- ARGV     groups: number of the list (0 for dead), the queue's bare name, how many jobs, and for each its bytes and new bytes
-- Returns  how many were moved: not those that are gone, or whose time has been put off
-- Again    moves what is left
-- Cost     O(jobs * log set)
local set, dead, queues = KEYS[1], KEYS[2], KEYS[3]

-- include must_be
local groups, at = {}, 1
while at <= #ARGV do
  local list, count = tonumber(ARGV[at]), tonumber(ARGV[at + 2])
  local group = { list = KEYS[3 + list], name = ARGV[at + 1], bury = list == 0, first = at + 3, count = count }
  local wrong = must_be(set, 'zset', 'ZREM', set, '')
  if not wrong and group.bury then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  elseif not wrong then
    wrong = must_be(group.list, 'list', 'LPUSH', group.list, '')
  end
  if wrong then
    return wrong
  end
  groups[#groups + 1] = group
  at = group.first + 2 * count
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local moved = 0
for _, group in ipairs(groups) do
  local arrived = false
  for index = 0, group.count - 1 do
    local old, new = ARGV[group.first + 2 * index], ARGV[group.first + 2 * index + 1]
    local score = tonumber(redis.call('ZSCORE', set, old) or '')
    if score and score <= now then
      redis.call('ZREM', set, old)
      moved = moved + 1
      if group.bury then
        redis.call('ZADD', dead, time[1] + (time[2] + moved) / 1000000, new)
      else
        redis.call('LPUSH', group.list, new)
        arrived = true
      end
    end
  end
  if arrived then
    redis.pcall('SADD', queues, group.name) -- the jobs are there, whoever may list them
  end
end
return moved
