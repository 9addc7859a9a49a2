#!lua flags=allow-oom
-- promote: move due jobs from a sorted set to the backs of their queues, or to their queues' quarantine.
-- Why one script: a job is in the set or in its queue. Ruby removes it first and then pushes it, and loses it
-- if it is killed in between.
-- Two pollers at the same time move each job once: the second one does not find a job that the first has moved.
-- A unique job that did not take its lock when it was scheduled takes it here, if it is free. It is promoted
-- in any case: it was accepted.
-- An unreadable job goes to the dead set and counts as a failed run: no job dies without a count.
-- KEYS     1 set (schedule or retry)  2 dead  3 queues (the set of names)  4 index of locks  5 processed
--          6 failed  7 processed today  8 failed today  then queue lists or quarantine lists, and locks
-- ARGV     1 seconds to keep a day's counters  2 dead jobs at most  3 dead seconds at most  then groups:
--          position of the list's key (0 for dead), the queue's bare name, locked (0|1), how many jobs, and for
--          each its bytes and new bytes; in a locked group also: position of the lock's key, its digest, its
--          owner, ms to hold it
-- Returns  how many were moved; jobs that are gone, or whose time has been put off, do not count
-- Repeat   moves what is left
-- Cost     O(jobs * log set), and the dead jobs that are trimmed, 256 at most
local set, dead, queues, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processed, failed, processed_today, failed_today = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local day_seconds, dead_most, dead_seconds = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

-- include must_be
-- include take_lock
-- include count_runs
-- include trim_dead
local groups, at = {}, 4
while at <= #ARGV do
  local list, locked, count = tonumber(ARGV[at]), ARGV[at + 2] == '1', tonumber(ARGV[at + 3])
  local group = { list = KEYS[list], name = ARGV[at + 1], dead = list == 0, first = at + 4, count = count,
    locked = locked, step = locked and 6 or 2 }
  local wrong = must_be(set, 'zset', 'ZREM', set, '')
  if not wrong and group.dead then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  elseif not wrong then
    wrong = must_be(group.list, 'list', 'LPUSH', group.list, '')
  end
  for job = 0, locked and count - 1 or -1 do
    local lock = KEYS[tonumber(ARGV[group.first + 6 * job + 2])]
    wrong = wrong or may('SET', lock, '')
  end
  if wrong then
    return wrong
  end
  groups[#groups + 1] = group
  at = group.first + group.step * count
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
local moved, killed = 0, 0
for _, group in ipairs(groups) do
  local arrived = false
  for job = 0, group.count - 1 do
    local arg = group.first + group.step * job
    local old, new = ARGV[arg], ARGV[arg + 1]
    local score = tonumber(redis.call('ZSCORE', set, old) or '')
    if score and score <= now then
      redis.call('ZREM', set, old)
      moved = moved + 1
      if group.dead then
        redis.call('ZADD', dead, time[1] + (time[2] + moved) / 1000000, new)
        killed = killed + 1
      else
        redis.call('LPUSH', group.list, new)
        arrived = true
        if group.locked then
          take_lock(KEYS[tonumber(ARGV[arg + 2])], index, ARGV[arg + 3], ARGV[arg + 4], ARGV[arg + 5], now_ms)
        end
      end
    end
  end
  if arrived then
    redis.pcall('SADD', queues, group.name) -- the jobs are there, even if this fails
  end
end
count_runs(processed, processed_today, killed, day_seconds)
count_runs(failed, failed_today, killed, day_seconds)
if killed > 0 then
  trim_dead(dead, time, dead_most, dead_seconds)
end
return moved
