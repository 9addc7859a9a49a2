#!lua
-- push: store new jobs, each at the back of its queue or in the schedule, all of them or none.
-- Why one script: the jobs of one call that go to several places are all stored or none is; a delay counts
-- from Redis' clock, whatever the producer's clock says; and the idempotency key is stored together with the
-- jobs, or one would be lost without the other.
-- No allow-oom: a full Redis must refuse new work, so that what it already holds can be drained.
-- KEYS     1 queues (the set of names)  2 schedule  3 scope, only with an idempotency key (see seen)
--          then queue lists
-- ARGV     1 number of the push in its scope, "" for no idempotency key  2 its mark
--          3 ms to keep the scope
--          4 how many jobs to schedule, and for each: "in" | "at", seconds from now or since 1970, the job
--          then for each queue list, in order: its bare name, how many jobs, the jobs
-- Returns  "pushed" (now, or before) | "stale" (the scope has a later push, or another one with this
--          number: nothing is stored)
-- Repeat   with an idempotency key: "pushed", and nothing is written; "stale" after a later push. Without:
--          pushes again
-- Cost     O(jobs), O(log schedule) for each to schedule
local queues, schedule, scope = KEYS[1], KEYS[2], KEYS[3]
local number, mark, remember_ms, later = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local once = number ~= ''
local first_list = once and 4 or 3
local names, batches = {}, {}
local at = 5 + 3 * later
for list = first_list, #KEYS do
  local count = tonumber(ARGV[at + 1])
  names[#names + 1] = ARGV[at]
  batches[#batches + 1] = { list = KEYS[list], first = at + 2, last = at + 1 + count }
  at = at + 2 + count
end

-- include must_be
-- include seen
local word = once and seen(scope, number, mark)
if word then
  return word
end
local wrong = once and may('SET', scope, '') or later > 0 and must_be(schedule, 'zset', 'ZADD', schedule, '0', '') or nil
-- One LPUSH alone, before everything else, is its own check: if it fails, nothing is written.
for _, batch in ipairs((later > 0 or #batches > 1) and batches or {}) do
  wrong = wrong or must_be(batch.list, 'list', 'LPUSH', batch.list, '')
end
if wrong then
  return wrong
end

local time = later > 0 and redis.call('TIME') -- it may be denied, too
for first = 5, 4 + 3 * later, 3 do
  local due = tonumber(ARGV[first + 1])
  if ARGV[first] == 'in' then
    due = due + time[1] + time[2] / 1000000
  end
  redis.call('ZADD', schedule, due, ARGV[first + 2])
end
for _, batch in ipairs(batches) do
  local pushed = redis.pcall('LPUSH', batch.list, unpack(ARGV, batch.first, batch.last))
  if type(pushed) == 'table' then
    return pushed
  end
end
if #names > 0 then
  redis.pcall('SADD', queues, unpack(names)) -- the jobs are there, even if this fails
end
-- The scope is written last. If a command above fails all the same, the jobs may be stored twice, which is
-- better than losing jobs that the client takes for stored.
if once then
  redis.call('SET', scope, number .. ' ' .. mark, 'PX', remember_ms)
end
return 'pushed'
