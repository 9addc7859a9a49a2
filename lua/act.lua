#!lua flags=allow-oom
-- act: move jobs for an operator from where they wait, or give them new bytes there.
-- Why one script: the job leaves one place and arrives at the other in one step, so if several callers want it
-- (workers, pollers, operators), one gets it, and the others' replies say that it has gone. What belongs to a
-- job that ends here changes in the same step, as at the end of a run (see owned), and an admitted job that
-- leaves its queue gives up its place at its gate; a job that is run again takes its lock again, or stays where
-- it is, in a set, while another job has a lock that it needs. A job that an operator retries is not cancelled
-- by marks that were made before: its new bytes have the score of the newest mark. If there is a newer one, no
-- job moves. A job that goes to the dead set gets no reason here: it keeps its error fields, and the operator's
-- request is the reason.
-- KEYS     1 where they wait  2 dead  3 queues (the set of names)  4 marks of cancelled jobs  then, by their
--          positions, queue lists and the keys of what belongs to jobs
-- ARGV     1 what the first key is: "set" | "list" | "waiting" (the waiting list of a gate, in which the name
--          of the job's queue and a line feed stand before each job)
--          2 score of the newest mark in the new bytes, empty if they do not depend on marks
--          3 about where in a list they are, in their order: the index of the first one when it was read,
--          counted from the oldest  4 how far from the oldest end the other jobs of a list keep their places
--          5 how many places they may have moved since  6 bytes of other entries that are read for a job at
--          most  7 dead jobs at most  8 dead seconds at most
--          then groups: fate, position of the queue list (0 for none), the queue's bare name or the new score,
--          and the arguments of read_owned, of each job its bytes, and with the fates "queue" and "here" its
--          new bytes
--          fate: "queue" | "dead" (as they are) | "gone" | "later" (the same set with the new score; each job a
--          microsecond after the one before it) | "here" (the same set and score with the new bytes)
-- Returns  {positions of jobs that were not found around there; nothing was written for them,
--          positions of jobs that stay because they need their lock, each followed by the jid of its holder,
--          positions of jobs whose place in the list the youngest job has taken,
--          score of the newest mark if that is newer than the given one, else empty}
-- Repeat   finds none of them there
-- Cost     O(jobs * log set), or O(jobs * entries before them), or deep in a list O(jobs * nodes before them);
--          the places that they may have moved; and the dead jobs that are trimmed, 256 at most. Redis cannot
--          take an entry out of the middle of a list without a step for each entry before it. So deep in a list
--          the youngest job takes the place of the one that leaves.
local from, dead, queues, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kind, unmarked, near, orderly = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local around, room = tonumber(ARGV[5]), tonumber(ARGV[6])
local dead_most, dead_seconds = tonumber(ARGV[7]), tonumber(ARGV[8])
-- include must_be
-- include owned
-- include retake
-- include read_page
-- include trim_dead
local wrong
if kind == 'set' then
  wrong = must_be(from, 'zset', 'ZREM', from, '')
else
  wrong = must_be(from, 'list', 'LREM', from, '1', '') or may('LRANGE', from, '0', '0')
    or may('LPOP', from) or may('LLEN', from) or may('LSET', from, '0', '')
end
local groups, at = {}, 9
while at <= #ARGV do
  local fate = ARGV[at]
  local group = read_owned(at + 3, (fate == 'queue' or fate == 'here') and 2 or 1)
  group.fate, group.list, group.name = fate, KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]
  if fate == 'queue' then
    wrong = wrong or must_be(group.list, 'list', 'LPUSH', group.list, '')
  elseif not wrong and fate == 'dead' then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  elseif not wrong and (fate == 'later' or fate == 'here') then
    wrong = may('ZADD', from, '0', '') or may('ZSCORE', from, '')
  end
  wrong = wrong or may_end(group)
  groups[#groups + 1], at = group, group.after
end
wrong = wrong or unmarked and may('ZSCORE', marks, '')
if wrong then
  return wrong
end
local newest = unmarked and redis.pcall('ZSCORE', marks, '') -- a key of another type has no marks
if type(newest) == 'string' and tonumber(newest) > unmarked then
  return { {}, {}, {}, newest }
end

-- index_of: where a job is, counted from the oldest, if it is around the place where the last one was found.
-- The search for a job that has left reads all entries around it. So after four of them it finds no more jobs.
local missed = 0
local function index_of(job)
  if missed == 4 then
    return
  end
  near = math.min(near, redis.call('LLEN', from))
  local found
  for _, direction in ipairs({ 1, -1 }) do -- jobs come in their order, so most are on the young side
    read_page({}, function(passed, count)
      local first = direction > 0 and near + passed or near - passed - count
      first, count = math.max(first, 0), math.min(count, count + first)
      if found or count <= 0 then
        return {}
      end
      local entries = redis.call('LRANGE', from, -first - count, -first - 1)
      for n, entry in ipairs(entries) do
        if entry == job then
          found = first + #entries - n
        end
      end
      return entries
    end, 1, around, room, 16, 64)
    if found then
      return found
    end
  end
  missed = missed + 1
end

local replaced = {}
local function leaves(job, group, new, position)
  if group.fate == 'later' then
    -- A microsecond apart, like the dead below.
    local score = redis.call('ZSCORE', from, job)
    return score and redis.call('ZADD', from, group.name + (position - 1) / 1000000, job) == 0
  elseif group.fate == 'here' then
    local score = redis.call('ZSCORE', from, job)
    -- NX: a member with these bytes is another job, which must not be replaced.
    return score and redis.call('ZADD', from, 'NX', score, new) == 1 and redis.call('ZREM', from, job) == 1
  elseif kind == 'set' then
    return redis.call('ZREM', from, job) == 1
  end
  local place = index_of(job)
  if not place then
    return false
  end
  near = place
  if place < orderly then
    return redis.call('LREM', from, -1, job) == 1
  end
  local youngest = redis.call('LPOP', from)
  if redis.call('LLEN', from) > place then -- else the job was the youngest itself
    redis.call('LSET', from, -place - 1, youngest)
    replaced[#replaced + 1] = position
  end
  return true
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local gone, held, position, killed = {}, {}, 0, false
for _, group in ipairs(groups) do
  local arrived = false
  for number = 0, group.count - 1 do
    local arg = group.first + number * group.step
    position = position + 1
    local holder = blocked(group, number + 1)
    if holder and not redis.call('ZSCORE', from, ARGV[arg]) then
      holder = nil -- a job that has gone is not blocked
    end
    local moves = not holder and leaves(ARGV[arg], group, ARGV[arg + 1], position)
    if moves then
      end_owned(group, { number + 1 }, now_ms)
    end
    if holder then
      held[#held + 1] = position
      held[#held + 1] = holder
    elseif not moves then
      gone[#gone + 1] = position
    elseif group.fate == 'queue' then
      redis.call('LPUSH', group.list, ARGV[arg + 1])
      arrived = true
    elseif group.fate == 'dead' then
      -- A microsecond apart: Ruby's readers distinguish members of a set by their score.
      local bytes = kind == 'waiting' and string.match(ARGV[arg], '\n(.*)$') or ARGV[arg]
      redis.call('ZADD', dead, time[1] + (time[2] + position) / 1000000, bytes)
      killed = true
    end
  end
  if arrived then
    redis.pcall('SADD', queues, group.name) -- the jobs are there, even if this fails
  end
end
finish_owned()
if killed then
  trim_dead(dead, time, dead_most, dead_seconds)
end
return { gone, held, replaced, '' }
