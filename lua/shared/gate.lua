-- gate: what decides whether a job may start. A run that a gate lets in holds a slot: its process' ledger
-- (slots) names the gate by the SHA-1 of the job's bytes. A job that may not start waits in the gate's list.
-- One that was moved from there to its queue, with the right to start, is admitted: the hash admitted has the
-- time in ms, the gate and the queue, each on a line, by the same SHA-1. The time is negative if the right has
-- lapsed.
-- gates has the counts of each gate: NAME\nr of slots, NAME\na of the admitted. So counts and names
-- change together. They are sets of SHA-1s: two jobs that are equal in every byte share a slot, a permit and an
-- admission, so a count follows what the set says, and never the number of jobs.
-- waiting is the index: the gates that have waiters, by the second at which the poller looks at them.
-- A gate g has its name, the name of its limit (of), the keys of its own (waiting, rate, stop), and when
-- read_counts has read its counts, their fields (r, a).
-- include rate
local max_wait_ms = 5000 -- between two looks of the poller at a gate with waiters
local gates, slots, admitted, waiting, limits
local function use_gates(key)
  gates, slots, admitted, waiting, limits = unpack(KEYS, key, key + 4)
end

local any_stop = false -- whether a gate that may_look has seen may be stopped
local function gate_at(name, key)
  -- The fields of all uses at once: to add them one by one would take Lua twice as long.
  return { name = name, waiting = KEYS[key], rate = KEYS[key + 1], stop = KEYS[key + 2], r = false, a = false,
    waiters = 0, state = 'none', free = 0, room = 0, wait_ms = max_wait_ms, shut_ms = 0, size = '', limit = false, permits = false,
    begun = 0, of = false }
end

-- may_use: nil if nothing can stop the changes of slots, admissions and counts half-way; else the error.
local function may_use()
  return must_be(gates, 'hash', 'HSET', gates, '', '') or may('HMGET', gates, '') or may('HDEL', gates, '')
    or must_be(slots, 'hash', 'HSET', slots, '', '') or may('HMGET', slots, '') or may('HDEL', slots, '')
    or must_be(admitted, 'hash', 'HSET', admitted, '', '') or may('HSETNX', admitted, '', '') or may('HGET', admitted, '')
    or may('HMGET', admitted, '') or may('HDEL', admitted, '')
    or must_be(waiting, 'zset', 'ZADD', waiting, '0', '') or may('ZREM', waiting, '') or may('ZMSCORE', waiting, '')
    or may('EXISTS', waiting)
end

-- size_of: what the size of a gate's limit says. g.size, if it is not empty, is used if no size is stored.
local sizes, read = {}, {} -- sizes as they are stored, by limit, and what their texts say
local function size_of(g)
  g.of = g.of or string.match(g.name, '^[^:]*')
  local text = sizes[g.of]
  if text == nil then
    text = redis.call('HGET', limits, g.of)
    sizes[g.of] = text
  end
  text = text or g.size
  if not read[text] then
    local most, kind, n, ms = string.match(text, '^(%S+) (%S+) (%d+) (%d+)')
    n, ms = tonumber(n or nil), tonumber(ms or nil)
    read[text] = { none = not most, drops = most == 'drop', most = tonumber(most or nil) or math.huge, kind = kind, n = n, ms = ms,
      rated = most and kind ~= 'none' and ms > 0 }
  end
  g.limit = read[text]
  return g.limit
end

-- The counts of gates, by field. They are read and written for all gates of a call together, because a command
-- costs as much as the change of several fields.
local counts, changed, is_changed = {}, {}, {}

-- may_admit: nil if nothing can stop look and admit half-way for gates, of which g is one, after a script has
-- written; else the error. Keys of gates differ only by the gate's name: a user that may use those of one gate
-- may use all.
local function may_admit(g)
  return must_be(limits, 'hash', 'HGET', limits, '') or may('PTTL', g.stop) or may('EXISTS', g.stop) or may('TYPE', g.rate)
    or may('LINDEX', g.waiting, '0') or may('RPOP', g.waiting) or may('LLEN', g.waiting)
end

-- may_look: nil if nothing can stop look half-way for these gates, of which there is at least one; else the
-- error. It only reads: before its first write, a script needs no permission to read. It reads how many
-- waiters each gate has, unless its list is certainly not used now: the index does not name it (unlisted), as
-- many jobs as are wanted may start, and neither a stop nor a dropped class can make them wait all the same.
-- Few gates have a state or a stop.
local function may_look(asked)
  local stops, wrong = {}, nil
  for at = 1, #asked do
    stops[at] = asked[at].stop
  end
  any_stop = redis.call('EXISTS', unpack(stops)) > 0
  for at = 1, #asked do
    local g = asked[at]
    local limit = size_of(g)
    if limit.rated then
      wrong = wrong or may_rate(g.rate)
      g.state = redis.call('TYPE', g.rate).ok
      if g.state ~= 'none' and g.state ~= 'string' then
        wrong = wrong or must_be(g.rate, 'list', 'TYPE', g.rate)
      end
    end
    if limit.rated or limit.drops or any_stop or not g.unlisted
      or limit.most - counts[g.r] - (counts[g.a] or 0) < g.wanted then
      local waiters = redis.pcall('LLEN', g.waiting)
      if type(waiters) == 'number' then
        g.waiters = waiters
      else
        wrong = wrong or must_be(g.waiting, 'list', 'LLEN', g.waiting)
      end
    end
  end
  return wrong
end

-- read_counts: reads the counts "r", "a" or both of gates, of which there is at least one. A count that has
-- changed in this call stays.
local function read_counts(asked, ...)
  local fields = {}
  for _, kind in ipairs({ ... }) do
    for at = 1, #asked do
      local g = asked[at]
      local field = g.name .. '\n' .. kind
      g[kind], fields[#fields + 1] = field, field
    end
  end
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
      set[#set + 1], set[#set + 2] = field, string.format('%d', counts[field])
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

-- look: finds how many more jobs of a gate may start now (free), how many more may start or be admitted beside
-- those that are admitted (room), and in how many ms to look again if none may; shut_ms is for how long none
-- may, whatever ends. Its counts are read, and may_look has been called. If the gate has no size at all, or the
-- size is that of a class whose jobs are dropped, it returns false, and there is room for all.
-- free is less than the admitted jobs if, after they were admitted, the gate was stopped or its size lowered.
local function look(g, now_ms)
  local limit = g.limit
  if limit.none or limit.drops then
    g.free, g.room, g.wait_ms = math.huge, math.huge, 0
    return false
  end
  local in_hand = counts[g.a] or 0 -- a caller need not read it if nothing is admitted
  g.free, g.wait_ms = limit.most - counts[g.r], max_wait_ms
  local stopped = any_stop and redis.call('PTTL', g.stop) or -1
  if stopped >= 0 then
    stopped = math.max(stopped, 1) -- its last part of a ms reads as 0
    g.free, g.wait_ms, g.shut_ms = 0, math.min(stopped, max_wait_ms), stopped
  elseif limit.rated then
    local next_ms
    g.permits, next_ms = permits(g, now_ms)
    g.shut_ms = next_ms
    if g.permits < g.free then
      -- A rate above 50 a second collects its permits for 20 ms, or the poller would look for each.
      g.free = g.permits
      g.wait_ms = math.min(math.max(next_ms, limit.n * 20 > limit.ms and 20 or 1), max_wait_ms)
    end
  end
  g.room = g.free - in_hand
  return true
end

-- shut: a gate lets nothing start, and looks again in so many ms.
local function shut(g, ms)
  g.free, g.room, g.wait_ms = 0, -(counts[g.a] or 0), ms
end

-- rule_is_gone: whether a gate is that of an operator's rule for a class which is not there any more, and the
-- process, which has not read that, would then not do right. No other limit's name has a dot.
local function rule_is_gone(g)
  return not sizes[g.of] and g.size ~= '' and string.find(g.of, '.', 1, true)
end

-- keep_size: stores the size of the program, if it has one, for a limit that has none.
local function keep_size(g, seconds)
  if not sizes[g.of] and not g.limit.none and not rule_is_gone(g) then
    sizes[g.of] = g.size .. ' code ' .. seconds
    redis.call('HSETNX', limits, g.of, sizes[g.of])
  end
end

-- look_again: the second of the poller's next look at a gate with waiters.
local function look_again(g, now_ms)
  return string.format('%.3f', (now_ms + (g.room > 0 and 0 or g.wait_ms)) / 1000)
end

-- grant: jobs of a gate are admitted to a queue. Returns how many of them count: one that is equal in every
-- byte may be admitted already, and not have lapsed.
local function grant(hashes, since_ms, name, queue)
  local set, text, granted = {}, string.format('%.0f\n%s\n%s', since_ms, name, queue), {}
  for at, had in ipairs(redis.call('HMGET', admitted, unpack(hashes))) do
    local hash = hashes[at]
    if not granted[hash] and (not had or string.sub(had, 1, 1) == '-') then
      set[#set + 1], set[#set + 2], granted[hash] = hash, text, true
    end
  end
  if #set > 0 then
    redis.call('HSET', admitted, unpack(set))
  end
  return #set / 2
end

-- admit: moves waiters to the backs of their queues, and admits them, while the gate has room, at most most of
-- them. g is looked at, and g.looks_at is the second of the poller's next look, if it is known. list_of returns
-- the list of a queue; nil if that waiter must not leave in this call; and true if it leaves without being
-- admitted. Returns how many left, and the queue of the one that stopped it. To the back: at the head, the
-- waiters of a gate that is always full would keep all other jobs of the queue from ever being taken.
local function admit(g, most, queues, now_ms, list_of)
  local moved, granted, elsewhere = 0, 0, nil
  most = math.min(most, g.waiters)
  while moved < most and g.room > 0 and not elsewhere do
    -- The next waiters of one queue move together, unless they are large: Lua has a copy of each.
    local queue, jobs, list, plain, bytes_left = nil, {}, nil, nil, 65536
    while #jobs < math.min(most - moved, g.room) and bytes_left > 0 do
      local entry = redis.call('LINDEX', g.waiting, -1 - #jobs)
      local next_queue, after = string.match(entry, '^([^\n]*)\n()')
      local bytes = string.sub(entry, after)
      if queue and next_queue ~= queue then
        break
      elseif not queue then
        queue, list, plain = next_queue, list_of(next_queue)
      end
      jobs[#jobs + 1], bytes_left = bytes, bytes_left - #bytes
    end
    -- pcall: a key that is no list keeps its own waiters.
    local length = list and redis.pcall('LPUSH', list, unpack(jobs))
    if type(length) == 'number' then
      redis.call('RPOP', g.waiting, #jobs)
      if length == #jobs then
        redis.pcall('SADD', queues, queue) -- the jobs are there, even if this fails
      end
      local hashes = {}
      for at, bytes in ipairs(plain and {} or jobs) do
        hashes[at] = redis.sha1hex(bytes)
      end
      local count = plain and 0 or grant(hashes, now_ms, g.name, queue)
      moved, granted, g.room = moved + #jobs, granted + count, g.room - count
    else
      elsewhere = queue
    end
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
