#!lua
-- push: store new jobs, each at the back of its queue or in the schedule, all of them or none.
-- Why one script: jobs of one call that go to several places are then all there, or none is; and a delay counts from
-- Redis' clock, whatever the producer's says.
-- No allow-oom: a full Redis must refuse new work, so that what it already holds can be drained.
-- KEYS     1 queues (the set of names)  2 schedule  3.. queue lists
-- ARGV     1 how many jobs to schedule, and for each: "in" | "at", seconds from now or since 1970, the job
--          then for each queue list, in order: its bare name, how many jobs, the jobs
-- Returns  "pushed"
-- Again    pushes again: a push whose reply was lost is for its caller to judge
-- Cost     O(jobs), O(log schedule) for each to schedule
local queues, schedule, later = KEYS[1], KEYS[2], tonumber(ARGV[1])
local names, batches = {}, {}
local at = 2 + 3 * later
for list = 3, #KEYS do
  local count = tonumber(ARGV[at + 1])
  names[#names + 1] = ARGV[at]
  batches[#batches + 1] = { list = KEYS[list], first = at + 2, last = at + 1 + count }
  at = at + 2 + count
end

-- include must_be
local wrong = later > 0 and must_be(schedule, 'zset', 'ZADD', schedule, '0', '')
for _, batch in ipairs(batches) do
  wrong = wrong or must_be(batch.list, 'list', 'LPUSH', batch.list, '')
end
if wrong then
  return wrong
end

local time = redis.call('TIME')
for first = 2, 1 + 3 * later, 3 do
  local due = tonumber(ARGV[first + 1])
  if ARGV[first] == 'in' then
    due = due + time[1] + time[2] / 1000000
  end
  redis.call('ZADD', schedule, due, ARGV[first + 2])
end
if #names > 0 then
  redis.call('SADD', queues, unpack(names))
end
for _, batch in ipairs(batches) do
  redis.call('LPUSH', batch.list, unpack(ARGV, batch.first, batch.last))
end
return 'pushed'
