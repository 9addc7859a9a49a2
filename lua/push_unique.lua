#!lua
-- push_unique: store new jobs: each unique one with its lock, if that is free, each member with its batch.
-- Why one script: a lock without its job would refuse all others until it expires, and a job without its lock
-- would refuse none. A duplicate that is marked instead of refused is marked in the step that detects it;
-- otherwise the mark could name a job that has ended. The WAL positions of a refused duplicate are left with
-- the lock: the owner's run replaces the duplicate's, and start returns them. If the duplicate comes after that
-- run has begun, and the owner's rule requires it (see unlock), one more run follows. The owner's rule decides,
-- because the owner's payload will run.
-- A lock that is taken in the state "k" (kept) stays until it expires or an operator releases it: no payload
-- names it, so no script that starts, ends or moves its owner changes it. Each later push is a duplicate, also
-- one of the owner itself, because the owner may have ended.
-- A job with a lock may need that of a key too, which is kept. The key is asked first: if it is held, the push
-- changes nothing at the other lock. The job takes both or neither.
-- A member of a batch is counted in the step that stores it: a member that is not counted would let the batch
-- be over too early, and one that is not stored would let it wait for ever. A job with the jid of a pending
-- member is not stored again. No allow-oom: a full Redis must refuse new work, so that what it already holds
-- can be drained.
-- KEYS     1 queues (the set of names)  2 schedule  3 index of locks  4 counter of refusals
--          5 scope, only with an idempotency key (see seen)  then for each group its queue list, if it is for
--          now, its jobs' locks, if they have any, those of their keys, if they have any, and of their batch:
--          info, pending, batches
-- ARGV     1 number of the push in its scope, "" for no idempotency key  2 its mark
--          3 ms to keep the scope
--          then groups: "now" | "in" | "at", seconds from now or since 1970, the queue's bare name, ms to
--          hold locks from the due time ("" for no locks), what to do with a duplicate: "refuse" | "mark"
--          (store it, with the owner's jid as the last field, duplicate-of), whether one that is not stored
--          leaves positions (0|1), the state in which locks are taken: "-" | "k", BID ("" for none),
--          seconds until the batch expires, ms to hold the locks of keys from the due time ("" for no keys),
--          how many jobs, and for each its bytes; in a group with locks also digest and owner, then the
--          positions, if it leaves any, and the digest of its key, if they have any; after the jobs of a group
--          with a batch their jids
-- Returns  {"pushed"} if no job has a lock | {"pushed", for each job "" or the jid of the job that holds its
--          lock ...} | {"stale"} (see push) | {"over"} (a batch is over, or does not exist: nothing is stored)
-- Repeat   with an idempotency key: the same answer, and nothing is written. Without: a job that holds its
--          lock is not stored twice. While it waits, its own push is not a duplicate, unless the lock is kept;
--          after the start of a run that counts (see unlock), it is
-- Cost     O(jobs * log locks of all)
local queues, schedule, index, refusals, scope = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local number, mark, remember_ms, first_group = ARGV[1], ARGV[2], ARGV[3], 4
local once = number ~= ''

-- include must_be
-- include leave
-- include seen
local word, after = nil, ''
if once then
  word, after = seen(scope, number, mark)
end
if word == 'pushed' then
  local answer = { 'pushed' }
  for holder in string.gmatch(after, '\n([^\n]*)') do
    answer[#answer + 1] = holder
  end
  return answer
elseif word then
  return word == 'stale' and { 'stale' } or word
end

local wrong = once and may('SET', scope, '') or nil
local function may_join(info, pending, batches)
  return must_be(info, 'hash', 'HINCRBY', info, '', '0') or may('HMGET', info, '')
    or must_be(pending, 'set', 'SADD', pending, '') or may('SMISMEMBER', pending, '')
    or must_be(batches, 'zset', 'ZADD', batches, '0', '')
end

local groups, at, key, over, locked = {}, first_group, once and 6 or 5, false, false
while at <= #ARGV do
  local group = {
    when = ARGV[at], seconds = ARGV[at + 1], name = ARGV[at + 2], hold_ms = ARGV[at + 3], duplicate = ARGV[at + 4],
    leaves = ARGV[at + 5] == '1', state = ARGV[at + 6], bid = ARGV[at + 7], keep_seconds = ARGV[at + 8],
    key_hold_ms = ARGV[at + 9], count = tonumber(ARGV[at + 10]), first = at + 11, step = 1,
    list = false, lock = false, values = false, own_key = false, key_values = false, jids = false,
    added = 0, -- members
  }
  if group.when == 'now' then
    group.list, key = KEYS[key], key + 1
    wrong = wrong or must_be(group.list, 'list', 'LPUSH', group.list, '')
  else
    wrong = wrong or must_be(schedule, 'zset', 'ZADD', schedule, '0', '')
  end
  if group.hold_ms ~= '' then
    group.step, group.lock, locked = group.leaves and 4 or 3, key, true
    key = key + group.count
    -- Locks differ only by their digest: a user that may write one may write all.
    local lock = KEYS[group.lock]
    wrong = wrong or may('SET', lock, '')
    -- MGET returns nothing for a key of another type, which is then replaced.
    group.values = not wrong and redis.pcall('MGET', unpack(KEYS, group.lock, key - 1))
    wrong = wrong or group.values.err and group.values
    if group.key_hold_ms ~= '' then
      group.step, group.own_key, key = group.step + 1, key, key + group.count
      group.key_values = not wrong and redis.pcall('MGET', unpack(KEYS, group.own_key, key - 1))
      wrong = wrong or group.key_values.err and group.key_values
    end
  end
  if group.bid ~= '' then
    group.info, group.pending, group.batches, key = KEYS[key], KEYS[key + 1], KEYS[key + 2], key + 3
    wrong = wrong or may_join(group.info, group.pending, group.batches)
    group.jids = group.first + group.count * group.step
    local held = wrong and {} or redis.call('HMGET', group.info, 'created', 'success_at')
    over = over or not wrong and (not held[1] or held[2])
  end
  groups[#groups + 1] = group
  at = group.first + group.count * (group.step + (group.jids and 1 or 0))
end
if wrong then
  return wrong
elseif over then
  return { 'over' }
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
local since = string.format('%.0f', now_ms)
-- One command per job would cost more than the rest of the script, so each command has several jobs.
local answer, position, refused, taken = { 'pushed' }, 1, 0, {}

-- until_of: when a lock ends that is held for so many ms from the due time.
local function until_of(hold_ms, due)
  return string.format('%.0f', now_ms + math.floor(hold_ms + math.max(0, due - now) * 1000))
end

-- holder_of: a value without an owner is not ours, and refuses all the same; '' would say that the job is
-- stored.
local function holder_of(value)
  return string.match(value, '^.([^\n]+)') or '?'
end

-- pending_of: by jid, 1 for the jobs of a group that are members already.
local function pending_of(group)
  local pending = {}
  if group.jids then
    local found = redis.call('SMISMEMBER', group.pending, unpack(ARGV, group.jids, group.jids + group.count - 1))
    for job = 1, #found do -- ipairs would call a function for each
      if found[job] == 1 then
        pending[ARGV[group.jids + job - 1]] = 1
      end
    end
  end
  return pending
end

-- store_new: stores the jobs of a group if all are new, for now, and without locks. For a large batch, a loop
-- over the jobs would cost more than these commands.
local function store_new(group, pending)
  if group.lock or not group.list or next(pending) then
    return false
  end
  if group.jids then
    group.added = redis.call('SADD', group.pending, unpack(ARGV, group.jids, group.jids + group.count - 1))
    if group.added < group.count then -- a jid is there twice
      return false
    end
  end
  redis.call('LPUSH', group.list, unpack(ARGV, group.first, group.first + group.count - 1))
  return true
end
for _, group in ipairs(groups) do
  local due, arg, stored, listed, members = now, group.first, {}, {}, {}
  local until_ms, key_until_ms
  if group.when ~= 'now' then
    due = group.seconds + (group.when == 'in' and now or 0)
  end
  if group.lock then
    until_ms = until_of(group.hold_ms, due)
    key_until_ms = group.own_key and until_of(group.key_hold_ms, due)
  end
  local pending = pending_of(group)
  local is_stored = store_new(group, pending)
  if is_stored then
    position = position + group.count
  end
  for job = 0, is_stored and -1 or group.count - 1 do
    local lock = group.lock and KEYS[group.lock + job]
    local value, owner, holder = lock and (taken[lock] or group.values[job + 1]), ARGV[arg + 2], ''
    local bytes, state = ARGV[arg], value and string.sub(value, 1, 1)
    local jid = group.jids and ARGV[group.jids + job]
    local own_key = group.own_key and KEYS[group.own_key + job]
    local key_value = own_key and (taken[own_key] or group.key_values[job + 1])
    if pending[jid] == 1 then
      bytes, lock, value, key_value = nil, nil, nil, nil
    end
    -- It is stored already. (Once its run has begun, the push counts as a duplicate: the run may have missed
    -- its change. The owner of a kept lock may have ended.)
    local waits = value and string.sub(value, 2, #owner + 1) == owner and state == '-'
    if key_value then
      bytes, holder, refused = nil, holder_of(key_value), refused + 1
    elseif not value then -- nor a lock, for a member that is stored already
      if lock then
        taken[lock] = group.state .. owner .. since
        redis.call('SET', lock, taken[lock], 'PXAT', until_ms)
        listed[#listed + 1] = until_ms
        listed[#listed + 1] = ARGV[arg + 1]
      end
    else
      if not waits then
        holder = holder_of(value)
      end
      if group.duplicate == 'mark' and not waits then
        -- Belay's jids need no JSON escapes; in other ones a quotation mark must not end the string.
        local plain = string.gsub(holder, '[%c"\\\128-\255]', '?')
        bytes = string.sub(bytes, 1, -2) .. ',"duplicate-of":"' .. plain .. '"}'
      else
        bytes, refused = nil, refused + (waits and 0 or 1)
        local marked = group.leaves and leave(value, ARGV[arg + 3]) or value
        if state == 's' then
          marked = 'd' .. string.sub(marked, 2)
        end
        if marked ~= value then
          redis.call('SET', lock, marked, 'KEEPTTL')
        end
        taken[lock] = marked
      end
    end
    if bytes and own_key then
      taken[own_key] = 'k' .. owner .. since
      redis.call('SET', own_key, taken[own_key], 'PXAT', key_until_ms)
      listed[#listed + 1] = key_until_ms
      listed[#listed + 1] = ARGV[arg + group.step - 1]
    end
    if bytes then
      members[#members + 1] = jid or nil
      pending[jid] = jid and 1 -- it may come again in this call
      if not group.list then
        stored[#stored + 1] = due
      end
      stored[#stored + 1] = bytes
    end
    position = position + 1
    if locked then
      answer[position] = holder
    end
    arg = arg + group.step
  end
  if #stored > 0 and group.list then
    redis.call('LPUSH', group.list, unpack(stored))
  elseif #stored > 0 then
    redis.call('ZADD', schedule, unpack(stored))
  end
  if is_stored or #stored > 0 and group.list then
    redis.pcall('SADD', queues, group.name)
  end
  if #listed > 0 then
    redis.pcall('ZADD', index, unpack(listed))
  end
  if #members > 0 then
    group.added = group.added + redis.call('SADD', group.pending, unpack(members))
  end
  if group.added > 0 then
    redis.call('HINCRBY', group.info, 'total', group.added)
    redis.call('ZADD', group.batches, 'GT', math.floor(now) + group.keep_seconds, group.bid)
  end
end
for job = 2, locked and position or 1 do
  answer[job] = answer[job] or '' -- of a group that has no locks
end
-- pcall: the index, the counter and the names of queues are only for listing, and the jobs are stored.
if refused > 0 then
  redis.pcall('INCRBY', refusals, refused)
end
if once then
  redis.call('SET', scope, number .. ' ' .. mark .. '\n' .. table.concat(answer, '\n', 2), 'PX', remember_ms)
end
return answer
