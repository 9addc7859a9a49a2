#!lua flags=allow-oom
-- act: move jobs for an operator from where they wait, or give them new bytes there.
-- Why one script: the job leaves one place and arrives at the other in one step, so if several callers want it
-- (workers, pollers, operators), one gets it, and the others' replies say that it has gone. A unique job that
-- ends here frees its lock in the same step, or runs once more for a duplicate, as at the end of a run; a job
-- that is run again takes its lock again.
-- A job that goes to the dead set gets no reason here: it keeps its error fields, and the operator's request
-- is the reason.
-- KEYS     1 where they wait  2 dead  3 queues (the set of names)  4 index of locks  then, by their
--          positions, queue lists, locks and states
-- ARGV     1 what the first key is: "set" | "oldest" | "youngest" (a list, and near which end of it they are) |
--          "at" (a list, and one job in it, by its position)
--          2 how many entries of a list are searched from there for each job, 0 for all: for a job that has
--          left, every entry is read; with "at" the job's index, counted from the oldest
--          then groups: fate, position of the queue list (0 for none), the queue's bare name or the new score,
--          locks, and the arguments of read_owned, of each job its bytes, and with the fates "queue" and "here"
--          its new bytes
--          fate: "queue" | "dead" (as they are) | "gone" | "later" (the same set with the new score) |
--          "here" (the same set and score with the new bytes)
--          locks: "none" | "free" (of jobs that end) | "hold" (prolong those that are the job's own) | "take"
--          (if free; the job moves in any case) | "need" (or the job stays where it is, in a set)
-- Returns  {positions of jobs that were not found there; nothing was written for them,
--          positions of jobs that stay because they need their lock, each followed by the jid of its holder}
-- Repeat   finds none of them there
-- Cost     O(jobs * log set), or O(jobs * entries searched), or with "at" O(nodes of the list up to the
--          index). Redis cannot take an entry out of the middle of a list without a step for each entry before
--          it. So with "at" the youngest job of the list takes the place of the one that leaves.
local from, dead, queues, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kind, search = ARGV[1], tonumber(ARGV[2])
-- include must_be
-- include take_lock
-- include unlock
-- include job_state
-- include read_owned
local wrong
if kind == 'set' then
  wrong = must_be(from, 'zset', 'ZREM', from, '')
elseif kind == 'at' then
  wrong = must_be(from, 'list', 'LINDEX', from, '0') or may('LPOP', from) or may('LLEN', from) or may('LSET', from, '0', '')
else
  wrong = must_be(from, 'list', 'LREM', from, '1', '') or must_be(from, 'list', 'LPOS', from, '')
end
local groups, at = {}, 3
while at <= #ARGV do
  local fate = ARGV[at]
  local group = read_owned(at + 4, (fate == 'queue' or fate == 'here') and 2 or 1)
  group.fate, group.list, group.name, group.how = fate, KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], ARGV[at + 3]
  group.lives_on = group.how == 'hold'
  if fate == 'queue' then
    group.taken, group.lock = group.lock, 0 -- these locks are taken, and not ended
    wrong = wrong or must_be(group.list, 'list', 'LPUSH', group.list, '')
    for lock = group.taken, group.taken > 0 and group.taken + group.count - 1 or -1 do
      wrong = wrong or may('SET', KEYS[lock], '') or may('GET', KEYS[lock])
    end
  elseif not wrong and fate == 'dead' then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  elseif not wrong and (fate == 'later' or fate == 'here') then
    wrong = may('ZADD', from, '0', '') or may('ZSCORE', from, '')
  end
  wrong = wrong or may_end(group)
  groups[#groups + 1], at = group, group.after
end
if wrong then
  return wrong
end

local function leaves(job, group, new)
  if group.fate == 'later' then
    local score = redis.call('ZSCORE', from, job)
    return score and redis.call('ZADD', from, group.name, job) == 0
  elseif group.fate == 'here' then
    local score = redis.call('ZSCORE', from, job)
    -- NX: a member with these bytes is another job, which must not be replaced.
    return score and redis.call('ZADD', from, 'NX', score, new) == 1 and redis.call('ZREM', from, job) == 1
  elseif kind == 'set' then
    return redis.call('ZREM', from, job) == 1
  elseif kind == 'at' then
    if redis.call('LINDEX', from, -search - 1) ~= job then
      return false
    end
    local youngest = redis.call('LPOP', from)
    if redis.call('LLEN', from) > search then -- else the job was the youngest itself
      redis.call('LSET', from, -search - 1, youngest)
    end
    return true
  end
  local rank = kind == 'oldest' and -1 or 1
  if search > 0 and not redis.call('LPOS', from, job, 'RANK', rank, 'MAXLEN', search) then
    return false
  end
  return redis.call('LREM', from, rank, job) == 1
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local gone, held, position = {}, {}, 0
-- who_else: the jid of another job that holds this job's lock; nil if there is none, or if this job has gone.
local function who_else(job, lock, owner)
  local value = redis.pcall('GET', lock) -- a key of another type is not a lock
  if type(value) == 'string' and string.sub(value, 2, #owner + 1) ~= owner and redis.call('ZSCORE', from, job) then
    return string.match(value, '^.([^\n]*)') or ''
  end
end

for _, group in ipairs(groups) do
  local arrived = false
  for number = 0, group.count - 1 do
    local arg = group.first + number * group.step
    local lock, locks = KEYS[(group.taken or 0) + number], group.locks and group.locks + number * group.step
    position = position + 1
    local holder = group.how == 'need' and who_else(ARGV[arg], lock, ARGV[locks + 1])
    local moves = not holder and leaves(ARGV[arg], group, ARGV[arg + 1])
    if moves then
      end_owned(group, number + 1, queues, now_ms)
    end
    if holder then
      held[#held + 1] = position
      held[#held + 1] = holder
    elseif not moves then
      gone[#gone + 1] = position
    elseif group.fate == 'queue' then
      redis.call('LPUSH', group.list, ARGV[arg + 1])
      arrived = true
      if group.how ~= 'none' then
        take_lock(lock, index, ARGV[locks], ARGV[locks + 1], ARGV[locks + 2], now_ms)
      end
    elseif group.fate == 'dead' then
      -- A microsecond apart: Ruby's readers distinguish members of a set by their score.
      redis.call('ZADD', dead, time[1] + (time[2] + position) / 1000000, ARGV[arg])
    end
  end
  if arrived then
    redis.pcall('SADD', queues, group.name) -- the jobs are there, even if this fails
  end
end
unlocked(index)
return { gone, held }
