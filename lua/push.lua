#!lua
-- push: store new jobs, each at the back of its queue, all of them or none.
-- Why one script: jobs of one call that go to several queues are then all there, or none is.
-- No allow-oom: a full Redis must refuse new work, so that what it already holds can be drained.
-- KEYS     1 queues (the set of names)  2.. queue lists
-- ARGV     for each queue list, in order: its bare name, how many jobs, the jobs
-- Returns  "pushed"
-- Again    pushes again: a push whose reply was lost is for its caller to judge
-- Cost     O(jobs)
local queues = KEYS[1]
local names, batches = {}, {}
local at = 1
for list = 2, #KEYS do
  local count = tonumber(ARGV[at + 1])
  names[#names + 1] = ARGV[at]
  batches[#batches + 1] = { list = KEYS[list], first = at + 2, last = at + 1 + count }
  at = at + 2 + count
end

for _, batch in ipairs(batches) do
  local kind = redis.call('TYPE', batch.list).ok
  if kind ~= 'none' and kind ~= 'list' then
    return redis.error_reply('WRONGTYPE ' .. batch.list .. ' is a ' .. kind .. ', not a list of jobs')
  end
end

redis.call('SADD', queues, unpack(names))
for _, batch in ipairs(batches) do
  redis.call('LPUSH', batch.list, unpack(ARGV, batch.first, batch.last))
end
return 'pushed'
