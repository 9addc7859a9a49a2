#!lua flags=allow-oom
-- start: record that the runs of jobs with a lock or a gate begin now, or that they do not begin.
-- Why one script: with until_executing the lock is free from now on, but only if this process still has the job
-- and the job still owns the lock; with until_executed and RescheduleOnce, a duplicate that is refused from now
-- on is served by the extra run. And a run takes its slot, or the job leaves for the waiting list, in the step
-- that compares the gate's counts.
-- It changes a lock from "-" to "s" once, at the first start. Later starts of the job do not change it, because
-- no run has served the duplicates that came in between. It also prolongs the lock, as renew does: the first
-- renewal could come too late for a short lock.
-- The reply has the WAL positions that refused duplicates left with the lock (see push_unique). If the lock is
-- freed, they are stored in a key of their own, for the job's next start, in case the reply or the run is lost.
-- A gate is asked before the lock changes: a job that waits keeps its lock. An admitted job begins, unless the
-- gate was stopped meanwhile, or its size lowered, or others have used its rate: then it waits first. Another
-- one begins if the gate has room and no job waits; else it waits itself. See gate.
-- KEYS     1 index of locks; with gates: those of use_gates, and for each gate its own; then for each group the
--          jobs' list, and its jobs' locks, and in a group "leave" where to keep what was left with each
-- ARGV     1 how many gates  then the gates of one limit after the other, until there are so many: name of the
--          limit, the size to use if none is stored, empty for no limit, how many gates, and their names
--          then groups: "none" (no lock) | "release" | "leave" (release, and keep what was left with it) |
--          "hold" | "mark" (hold, as that of a job that runs once more for later duplicates) | "back" (take it
--          again, if it is free: the job is requeued, and waits as it did);
--          "" (no gate) | "gate" | "first" (it waits before others) | "alone" (it takes its slot before
--          waiters, and does not wait); its queue; how many jobs, and for each: its bytes; with a lock: digest,
--          owner, ms to keep what was left or to hold the lock; with a gate: its name, and the SHA-1 of the
--          job's bytes
-- Returns  {"started", {positions of jobs that are not in our list any more}, {of jobs that wait now}, {of
--          those alone that must not begin now}, {positions of jobs, and with each what was left with its
--          lock}}
-- Repeat   prolongs again, and changes nothing more; for a group "leave" the reply has what was left again; a
--          job that waits is not in our list any more
-- Cost     O(jobs * (length of the list + log locks of all)), O(gates * starts that no rate counts any more)
local index, count_gates = KEYS[1], tonumber(ARGV[1])
-- include must_be
-- include take_lock
-- include list_lock
-- include gate
local asked, by_name, any_admitted = {}, {}, false -- asked: the gates in their order

-- read_gates: reads the counts of all gates, and which of them have waiters.
local function read_gates()
  read_counts(asked, 'r', any_admitted and 'a' or nil)
  local names = {}
  for number = 1, redis.call('EXISTS', waiting) == 1 and count_gates or 0 do
    names[number] = asked[number].name
  end
  for number, look in ipairs(#names > 0 and redis.call('ZMSCORE', waiting, unpack(names)) or {}) do
    asked[number].unlisted = not look
  end
end

local groups, at, key = {}, 2, 2
if count_gates > 0 then
  use_gates(2)
  key = 7
  while #asked < count_gates do
    local of, size, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    for number = at + 3, at + 2 + count do
      local g = gate_at(ARGV[number], key)
      g.of, g.size, g.wanted, g.unlisted = of, size, 0, true
      asked[#asked + 1], by_name[g.name], key = g, g, key + 3
    end
    at = at + 3 + count
  end
end
while at <= #ARGV do
  local what, gated, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 3])
  local locks = what == 'none' and 0 or count
  local group = { holds = what == 'hold' or what == 'mark', marks = what == 'mark', back = what == 'back', locked = locks > 0,
    left = what == 'leave' and key + 1 + count, count = count, first = at + 4, list = KEYS[key], lock = key + 1, kept = {},
    values = {}, gated = gated ~= '' and gated, queue = ARGV[at + 2], step = 1 + (locks > 0 and 3 or 0) + (gated ~= '' and 2 or 0),
    gates = {}, place = 0, ahead = {} }
  for job = 1, group.gated and count or 0 do
    local g = by_name[ARGV[group.first + group.step * job - 2]]
    group.gates[job], g.wanted = g, g.wanted + 1
  end
  groups[#groups + 1] = group
  at, key = group.first + group.step * count, group.lock + locks * (group.left and 2 or 1)
end

if count_gates > 0 then
  local list = asked[1].waiting
  -- That the hashes are hashes, the reads below say.
  local wrong = may('HSETNX', limits, '', '') or may('HSET', gates, '', '') or may('HDEL', gates, '') or may('HSET', slots, '', '')
    or may('HDEL', admitted, '') or may('ZADD', waiting, '0', '') or may('LPUSH', list, '') or may('RPUSH', list, '')
  if not wrong then
    any_admitted = redis.call('EXISTS', admitted) == 1
    read_gates()
    wrong = may_look(asked)
  end
  if wrong then
    return wrong
  end
end

-- read_gated: what Redis has of the jobs of a group with gates, by position: the SHA-1 of each, the gate of its
-- slot, and its admission.
local function read_gated(group)
  local hashes = {}
  for job = 1, group.count do
    hashes[job] = ARGV[group.first + group.step * job - 1]
  end
  group.hashes, group.slots = hashes, redis.call('HMGET', slots, unpack(hashes))
  group.admissions = any_admitted and redis.call('HMGET', admitted, unpack(hashes)) or {}
end

for _, group in ipairs(groups) do
  if group.gated then
    read_gated(group)
  end
  local wrong = must_be(group.list, 'list', 'LPOS', group.list, '') or group.gated and may('LREM', group.list, '-1', '')
  if not wrong and group.locked then
    local lock = KEYS[group.lock]
    -- Locks differ only by their digest: a user that may write one may write all.
    wrong = may('SETRANGE', lock, '0', '') or may('DEL', lock) or may('PEXPIRE', lock, '0') or may('SET', lock, '')
    -- MGET: a key that is no lock reads as none, and belongs to no job.
    group.values = wrong or redis.pcall('MGET', unpack(KEYS, group.lock, group.lock + group.count - 1))
    wrong = group.values.err and group.values
  end
  if wrong then
    return wrong
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
for _, g in ipairs(asked) do
  if not look(g, now_ms) then
    g.waiters = 0 -- without a size nothing waits, and the waiters that there are will leave
  end
  if g.limit.drops and string.sub(g.size, 1, 4) ~= 'drop' or rule_is_gone(g) then
    -- The process has not read that it must drop the job, and would run it. Or it has not read that the rule is
    -- gone, and would drop the job, or run it past the limit of its program.
    shut(g, 1000)
  end
end
for _, g in ipairs(asked) do
  keep_size(g, time[1])
end

-- unmark: the admission of a job is used up. An admission that has lapsed does not count. If another gate than
-- the job's has made it, that gate has room now, and no end of a run of it will say so: the poller looks at it.
local used, unmarked = {}, {} -- in this call: the SHA-1s in order, and by SHA-1
local function unmark(hash, since, of, g)
  used[#used + 1], unmarked[hash] = hash, true
  if since > 0 then
    change_count(of .. '\na', -1)
    if by_name[of] then
      by_name[of].room = by_name[of].room + 1
    end
    if of ~= g.name then
      redis.call('ZADD', waiting, 'XX', time[1], of)
    end
  end
end

-- next_in_list: whether a job is where it probably is in our list, if that can be said. The jobs of a call
-- mostly lie there side by side, in their order, and the next one is nearer to the head. So some are read
-- together (ahead), and not many, because they could be others, and large. removed says that the job has just
-- left the list.
local function next_in_list(group, bytes, removed)
  local ahead = group.ahead
  if #ahead == 0 and removed then
    group.place = math.max(group.place - 1, 0)
    return false
  elseif #ahead == 0 and group.place > 0 then
    local first = math.max(group.place - 16, 0)
    ahead = redis.pcall('LRANGE', group.list, first, group.place - 1)
    group.ahead, group.place = ahead.err and {} or ahead, ahead.err and 0 or first
  end
  local is = ahead[#ahead] == bytes
  if is then
    ahead[#ahead] = nil
  elseif #ahead > 0 then
    group.ahead, group.place, group.searches = {}, 0, true
  end
  return is
end

-- has: whether a job is in our list.
local function has(group, bytes)
  if next_in_list(group, bytes) then
    return true
  end
  local place = redis.call('LPOS', group.list, bytes)
  group.place = not group.searches and place or 0
  return place
end

-- enter: whether a job begins ("begins"), waits ("parked"), must not begin ("busy"), or is not in our list any
-- more ("lost"), for which nothing is written.
local ledger, begun = {}, {} -- begun: in this call, by SHA-1
local function enter(g, group, job, bytes)
  local hash = group.hashes[job]
  local had, since, of = group.admissions[job], nil, nil
  if had and not unmarked[hash] then
    since, of = string.match(had, '^(%-?%d+)\n([^\n]*)')
    since = tonumber(since or nil)
  end
  local holds = begun[hash] or group.slots[job] -- the same start again, or an equal job
  -- An admitted job has its place: the counts have it already.
  local enters = holds or g.free > 0 and (since and since > 0 and of == g.name
    or g.room > 0 and (since or group.gated == 'alone' or g.waiters == 0))
  if enters or group.gated == 'alone' then
    if not has(group, bytes) then
      return 'lost'
    elseif not enters then
      return 'busy'
    end
  elseif redis.call('LREM', group.list, '1', bytes) == 0 then -- the newest are at this end
    return 'lost'
  else
    next_in_list(group, bytes, true)
  end
  if since then
    unmark(hash, since, of, g)
  end
  if not enters then
    g.waiters, g.waits = g.waiters + 1, true
    local list = (since or group.gated == 'first') and 'first' or 'parked'
    g[list] = g[list] or {}
    g[list][#g[list] + 1] = group.queue .. '\n' .. bytes
    return 'parked'
  end
  if not holds then
    begun[hash], g.begun, g.free, g.room = true, g.begun + 1, g.free - 1, g.room - 1
    ledger[#ledger + 1], ledger[#ledger + 2] = hash, g.name
  end
  return 'begins'
end

local words, answers, position = { lost = {}, parked = {}, busy = {} }, {}, 0
for _, group in ipairs(groups) do
  for job = 0, group.count - 1 do
    local arg, lock, value = group.first + group.step * job, KEYS[group.lock + job], group.values[job + 1]
    local owner, left = ARGV[arg + 2], group.kept[job + 1] or ''
    position = position + 1
    local word = 'begins'
    if group.gated then
      word = enter(group.gates[job + 1], group, job + 1, ARGV[arg])
    elseif not has(group, ARGV[arg]) then
      word = 'lost'
    end
    if word ~= 'begins' then
      left, words[word][#words[word] + 1] = '', position
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
if #ledger > 0 then
  redis.call('HSET', slots, unpack(ledger))
end
if #used > 0 then
  redis.call('HDEL', admitted, unpack(used))
end
local looks = {}
for _, g in ipairs(asked) do
  if g.begun > 0 then
    change_count(g.r, g.begun)
    if g.permits then
      use_permits(g, g.begun, now_ms)
    end
  end
  if g.parked then
    redis.call('LPUSH', g.waiting, unpack(g.parked))
  end
  for place = g.first and #g.first or 0, 1, -1 do -- the first of them will be the next one
    redis.call('RPUSH', g.waiting, g.first[place])
  end
  if g.waits then
    looks[#looks + 1], looks[#looks + 2] = look_again(g, now_ms), g.name
  end
end
if #looks > 0 then
  redis.call('ZADD', waiting, 'LT', unpack(looks))
end
if count_gates > 0 then
  write_counts()
end
return { 'started', words.lost, words.parked, words.busy, answers }
