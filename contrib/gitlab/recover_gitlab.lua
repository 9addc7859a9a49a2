#!lua flags=allow-oom
-- recover_gitlab: move jobs from the working list of a dead Ruby process to the head of a queue, or to dead.
-- Why one script: a process whose heartbeat came back before this call has lost nothing, and a caller that is
-- killed here leaves every job in one place. It moves element by element, so beside another caller or GitLab's
-- own cleaner, which takes each job out of the list first, each job moves once. A job that goes to the dead set
-- counts as a failed run: no job dies without a count.
-- KEYS     1 working list  2 queue list  3 queues (the set of names)  4 dead  5 processed  6 failed
--          7 processed today  8 failed today  then the heartbeats that the process may have
--          then, by their positions, the keys of what belongs to jobs
-- ARGV     1 the queue's bare name  2 seconds to keep a day's counters  3 how many heartbeats  4 dead jobs at
--          most  5 dead seconds at most  then groups as of recover, whose one triple is the first two keys
-- Returns  {"alive"} (there is a heartbeat; nothing was written) |
--          {"recovered", jobs left in the list, jobs moved}
-- Repeat   moves what is left; a job that is not there any more is skipped
-- Cost     O(jobs * length of the working list), and the dead jobs that are trimmed, 256 at most
local working, queue, queues, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processed, failed, processed_today, failed_today, heartbeats = KEYS[5], KEYS[6], KEYS[7], KEYS[8], 9
local name, day_seconds, count_heartbeats = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local dead_most, dead_seconds = tonumber(ARGV[4]), tonumber(ARGV[5])

if redis.call('EXISTS', unpack(KEYS, heartbeats, heartbeats + count_heartbeats - 1)) > 0 then
  return { 'alive' }
end

-- include must_be
-- include owned
-- include count_runs
-- include trim_dead
-- include orphans
local groups, wrong = read_orphans({ { working = working, queue = queue } }, nil, dead, 6)
if wrong then
  return wrong
end

local time = redis.call('TIME')
local moved, killed = move_orphans(groups, dead, time, time[1] * 1000 + math.floor(time[2] / 1000))
count_runs(processed, processed_today, killed, day_seconds)
count_runs(failed, failed_today, killed, day_seconds)
if killed > 0 then
  trim_dead(dead, time, dead_most, dead_seconds)
end
if moved > killed then
  redis.pcall('SADD', queues, name) -- the jobs are there, even if this fails
end
return { 'recovered', redis.call('LLEN', working), moved }
