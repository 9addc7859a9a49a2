-- gate: what decides whether a job may start. A run that a gate lets in holds a slot: its process' ledger
-- (slots) names the gate by the SHA-1 of the job's bytes. A job that may not start waits in the gate's list.
-- One that was moved from there to its queue, with the right to start, is admitted: the hash admitted has the
-- time in ms, the gate and the queue, each on a line, by the same SHA-1. The time is negative if the right has
-- lapsed.
-- gates has the counts of each gate: NAME\nr of slots, NAME\na of the admitted. So counts and names
-- change together. They are sets of SHA-1s: two jobs that are equal in every byte share a slot, a permit and an
-- admission, so a count follows what the set says, and never the number of jobs.
-- waiting is the index: the gates that have waiters, by the second at which the poller looks at them.
-- A gate g has its name, the keys of its own (waiting, rate, stop) and the fields of its counts (r, a).
-- include rate
local max_wait_ms = 5000 -- between two looks of the poller at a gate with waiters
local gates, slots, admitted, waiting, limits
local function use_gates(key)
  gates, slots, admitted, waiting, limits = unpack(KEYS, key, key + 4)
end

local any_stop = false -- whether a gate that may_look has seen may be stopped
local function gate_at(name, key)
  -- The fields of all uses at once: to add them one by one would take Lua twice as long.
  return { name = name, waiting = KEYS[key], rate = KEYS[key + 1], stop = KEYS[key + 2], r = name .. '\nr', a = name .. '\na',
    waiters = 0, state = 'none', room = 0, wait_ms = max_wait_ms, size = '', limit = false, permits = false, begun = 0 }
end

-- may_use: nil if nothing can stop the changes of slots, admissions and counts half-way; else the error.
local function may_use()
  return must_be(gates, 'hash', 'HSET', gates, '', '') or may('HMGET', gates, '') or may('HDEL', gates, '')
    or must_be(slots, 'hash', 'HSET', slots, '', '') or may('HMGET', slots, '') or may('HDEL', slots, '')
    or must_be(admitted, 'hash', 'HSET', admitted, '', '') or may('HSETNX', admitted, '', '') or may('HGET', admitted, '')
    or may('HMGET', admitted, '') or may('HDEL', admitted, '')
    or must_be(waiting, 'zset', 'ZADD', waiting, '0', '') or may('ZREM', waiting, '') or may('ZMSCORE', waiting, '')
end

-- may_look: nil if nothing can stop look and admit half-way for these gates, of which there is at least one;
-- else the error. Keys of gates differ only by the gate's name: a user that may use those of one gate may use
-- all. It reads how many waiters each has. Most gates have no key of their own, and one command says so of all.
local function may_look(asked)
  local first = asked[1]
  local wrong = must_be(limits, 'hash', 'HGET', limits, '') or may('PTTL', first.stop) or may('EXISTS', first.stop)
    or may_rate(first.rate) or may('TYPE', first.waiting) or may('LPUSH', first.waiting, '') or may('RPUSH', first.waiting, '')
    or may('LINDEX', first.waiting, '0') or may('RPOP', first.waiting) or may('LLEN', first.waiting)
  if wrong then
    return wrong
  end
  local function some(key)
    local keys = {}
    for at, g in ipairs(asked) do
      keys[at] = g[key]
    end
    return redis.call('EXISTS', unpack(keys)) > 0
  end
  local wait, rate, stop = some('waiting'), some('rate'), some('stop')
  for _, g in ipairs(wait and asked or {}) do
    local waiters = redis.pcall('LLEN', g.waiting)
    if type(waiters) == 'number' then
      g.waiters = waiters
    else
      wrong = wrong or must_be(g.waiting, 'list', 'LLEN', g.waiting)
    end
  end
  any_stop = stop
  for _, g in ipairs(rate and asked or {}) do
    g.state = redis.call('TYPE', g.rate).ok
    if g.state ~= 'none' and g.state ~= 'string' then
      wrong = wrong or must_be(g.rate, 'list', 'TYPE', g.rate)
    end
  end
  return wrong
end

-- The counts of gates, by field. They are read and written for all gates of a call together, because a command
-- costs as much as the change of several fields.
local counts, changed, is_changed = {}, {}, {}

-- read_counts: reads the counts in these fields, of which there is at least one. A count that has changed in
-- this call stays.
local function read_counts(fields)
  for at, count in ipairs(redis.call('HMGET', gates, unpack(fields))) do
    counts[fields[at]] = counts[fields[at]] or count and tonumber(count) or 0
  end
end

-- change_count: changes a count by a number. It is stored by write_counts.
local function change_count(field, number)
  if not counts[field] then
    counts[field] = tonumber(redis.call('HMGET', gates, field)[1]) or 0
  end
  counts[field] = counts[field] + number
  if not is_changed[field] then
    changed[#changed + 1], is_changed[field] = field, true
  end
end

local function write_counts()
  local set, none = {}, {}
  for _, field in ipairs(changed) do
    if counts[field] > 0 then
      set[#set + 1], set[#set + 2] = field, counts[field]
    else
      none[#none + 1] = field
    end
  end
  if #set > 0 then
    redis.call('HSET', gates, unpack(set))
  end
  if #none > 0 then
    redis.call('HDEL', gates, unpack(none))
  end
end

-- look: finds how many more jobs of a gate may start or be admitted now (room), and in how many ms to look
-- again if none may. Its counts are read, and may_look has been called. g.size, if it is not empty, is used if
-- no size is stored. If there is no size at all, or the size is that of a class whose jobs are dropped, it
-- returns false, and there is room for all.
local sizes, read = {}, {} -- sizes as they are stored, by limit, and what their texts say
local function read_size(text)
  local most, kind, n, ms = string.match(text, '^(%S+) (%S+) (%d+) (%d+)')
  read[text] = { none = not most, drops = most == 'drop', most = tonumber(most or nil) or math.huge, kind = kind,
    n = tonumber(n or nil), ms = tonumber(ms or nil) }
  return read[text]
end

local function name_of_limit(g)
  return string.sub(g.name, 1, (string.find(g.name, ':', 1, true) or 0) - 1)
end

local function look(g, now_ms)
  local name = name_of_limit(g)
  if sizes[name] == nil then
    sizes[name] = redis.call('HGET', limits, name)
  end
  local text = sizes[name] or g.size
  local limit = read[text] or read_size(text)
  g.limit = limit
  if limit.none or limit.drops then
    g.room, g.wait_ms = math.huge, 0
    return false
  end
  local in_hand = counts[g.a]
  g.room, g.wait_ms = limit.most - counts[g.r] - in_hand, max_wait_ms
  local stopped = any_stop and redis.call('PTTL', g.stop) or 0
  if stopped > 0 then
    g.room, g.wait_ms = 0, math.min(stopped, max_wait_ms)
  elseif limit.kind ~= 'none' and limit.ms > 0 then
    local next_ms
    g.permits, next_ms = permits(g, now_ms)
    if g.permits - in_hand < g.room then
      -- A rate above 50 a second collects its permits for 20 ms, or the poller would look for each.
      g.room = g.permits - in_hand
      g.wait_ms = math.min(math.max(next_ms, limit.n * 20 > limit.ms and 20 or 1), max_wait_ms)
    end
  end
  return true
end

-- keep_size: stores the size of the program, if it has one, for a limit that has none. g is looked at.
local function keep_size(g, seconds)
  local name = name_of_limit(g)
  if not sizes[name] and not g.limit.none then
    sizes[name] = g.size .. ' code ' .. seconds
    redis.call('HSETNX', limits, name, sizes[name])
  end
end

-- look_again: the second of the poller's next look at a gate with waiters.
local function look_again(g, now_ms)
  return string.format('%.3f', (now_ms + (g.room > 0 and 0 or g.wait_ms)) / 1000)
end

-- grant: a job is admitted. Returns 1 if that counts: one that is equal in every byte may be admitted already.
local function grant(hash, since_ms, name, queue)
  local text = string.format('%.0f\n%s\n%s', since_ms, name, queue)
  if redis.call('HSETNX', admitted, hash, text) == 0 then
    if string.sub(redis.call('HGET', admitted, hash), 1, 1) ~= '-' then
      return 0
    end
    redis.call('HSET', admitted, hash, text) -- it had lapsed
  end
  return 1
end

-- admit: moves waiters to the backs of their queues, and admits them, while the gate has room, at most most of
-- them. g is looked at, and g.looks_at is the second of the poller's next look, if it is known. list_of returns
-- the list of a queue; nil if that waiter must not leave in this call; and true if it leaves without being
-- admitted. Returns how many left, and the queue of the one that stopped it. To the back: at the head, the
-- waiters of a gate that is always full would keep all other jobs of the queue from ever being taken.
local function admit(g, most, queues, now_ms, list_of)
  local moved, granted, elsewhere = 0, 0, nil
  while moved < most and g.room > 0 and moved < g.waiters do
    local queue, bytes = string.match(redis.call('LINDEX', g.waiting, -1), '^([^\n]*)\n(.*)$')
    local list, plain = list_of(queue)
    -- pcall: a key that is no list keeps its own waiters.
    local length = list and redis.pcall('LPUSH', list, bytes)
    if type(length) ~= 'number' then
      elsewhere = queue
      break
    end
    redis.call('RPOP', g.waiting)
    if length == 1 then
      redis.pcall('SADD', queues, queue) -- the job is there, even if this fails
    end
    local one = plain and 0 or grant(redis.sha1hex(bytes), now_ms, g.name, queue)
    moved, granted, g.room = moved + 1, granted + one, g.room - one
  end
  if granted > 0 then
    change_count(g.a, granted)
  end
  if moved == g.waiters then
    redis.call('ZREM', waiting, g.name)
  elseif g.room > 0 or g.wait_ms < max_wait_ms or not g.looks_at or now_ms / 1000 > g.looks_at - max_wait_ms / 2000 then
    -- Else the gate is full, and the poller's look at it is far away: each end of a run would only postpone it.
    redis.call('ZADD', waiting, look_again(g, now_ms), g.name)
  end
  return moved, elsewhere
end
