#!lua flags=allow-oom
-- start: record that the runs of unique jobs begin now, or that they do not begin after all.
-- Why one script: with until_executing the lock is free from now on, but only if this process still has the job
-- and the job still owns the lock; with until_executed and RescheduleOnce, a duplicate that is refused from now
-- on is served by the extra run.
-- It changes a lock from "-" to "s" once, at the first start. Later starts of the job do not change it, because
-- no run has served the duplicates that came in between. It also prolongs the lock, as renew does: the first
-- renewal could come too late for a short lock.
-- The reply has the WAL positions that refused duplicates left with the lock (see push_unique). If the lock is
-- freed, they are stored in a key of their own, for the job's next start, in case the reply or the run is lost.
-- KEYS     1 index of locks  then for each group the job's list, and its jobs' locks, and in a group "leave"
--          where to keep what was left with each
-- ARGV     groups: "release" | "leave" (release, and keep what was left with it) | "hold" | "mark" (hold, as
--          that of a job that runs once more for later duplicates) | "back" (take it again, if it is free:
--          the job is requeued, and waits as it did), how many jobs, and for each: its bytes, digest, owner,
--          ms to keep what was left or to hold the lock
-- Returns  {"started", {positions of jobs that are not in our list any more}, {positions of jobs, and with
--          each what was left with its lock}}
-- Repeat   prolongs again, and changes nothing more; for a group "leave" the reply has what was left again
-- Cost     O(jobs * (length of the list + log locks of all))
local index = KEYS[1]
local groups, at, key = {}, 1, 2
while at <= #ARGV do
  local what, count = ARGV[at], tonumber(ARGV[at + 1])
  local group = { holds = what == 'hold' or what == 'mark', marks = what == 'mark', back = what == 'back',
    left = what == 'leave' and key + 1 + count, count = count, first = at + 2, list = KEYS[key], lock = key + 1, kept = {} }
  groups[#groups + 1] = group
  at, key = group.first + 4 * count, group.lock + count * (group.left and 2 or 1)
end

-- include must_be
-- include take_lock
-- include list_lock
for _, group in ipairs(groups) do
  local lock = KEYS[group.lock]
  -- Locks differ only by their digest: a user that may write one may write all.
  local wrong = must_be(group.list, 'list', 'LPOS', group.list, '') or may('SETRANGE', lock, '0', '') or may('DEL', lock)
    or may('PEXPIRE', lock, '0') or may('SET', lock, '')
  -- MGET: a key that is no lock reads as none, and belongs to no job.
  group.values = wrong or redis.pcall('MGET', unpack(KEYS, group.lock, group.lock + group.count - 1))
  if wrong or group.values.err then
    return group.values
  end
  if group.left then
    local left = KEYS[group.left]
    group.kept = may('SET', left, '') or redis.pcall('MGET', unpack(KEYS, group.left, group.left + group.count - 1))
    if group.kept.err then
      return group.kept
    end
  end
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lost, answers, position = {}, {}, 0
for _, group in ipairs(groups) do
  for job = 0, group.count - 1 do
    local arg, lock, value = group.first + 4 * job, KEYS[group.lock + job], group.values[job + 1]
    local owner, left = ARGV[arg + 2], group.kept[job + 1] or ''
    position = position + 1
    if not redis.call('LPOS', group.list, ARGV[arg]) then
      lost[#lost + 1], left = position, ''
    elseif group.back then
      take_lock(lock, index, ARGV[arg + 1], owner, ARGV[arg + 3], now_ms)
    elseif value and string.sub(value, 2, #owner + 1) == owner then
      local now = string.match(value, '^%d+(\n.*)$', #owner + 2) or ''
      left = left .. now
      if group.left and now ~= '' then
        redis.call('SET', KEYS[group.left + job], left, 'PX', ARGV[arg + 3])
      end
      if group.holds then
        redis.call('PEXPIRE', lock, ARGV[arg + 3])
        list(ARGV[arg + 1], now_ms + ARGV[arg + 3])
      else
        free(lock, ARGV[arg + 1])
      end
      if group.marks and string.sub(value, 1, 1) == '-' then
        redis.call('SETRANGE', lock, 0, 's')
      end
    end
    if left ~= '' then
      answers[#answers + 1] = position
      answers[#answers + 1] = left
    end
  end
end
unlocked(index)
return { 'started', lost, answers }
