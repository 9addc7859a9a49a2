-- gate: what decides whether a job may start. A run that a gate lets in holds a slot: its process' ledger
-- (slots) names the gate by the SHA-1 of the job's bytes. A job that may not start waits in the gate's list.
-- One that was moved from there to its queue, with the right to start, is admitted: the hash admitted has the
-- time in ms, the gate and the queue, each on a line, by the same SHA-1. The time is negative if the right has
-- lapsed.
-- gates has the counts of each gate: NAME\nr of slots, NAME\na of the admitted. So counts and names
-- change together. They are sets of SHA-1s: two jobs that are equal in every byte share a slot, a permit and an
-- admission, so a count follows what the set says, and never the number of jobs.
-- waiting is the index: the gates that have waiters, by the second at which the poller looks at them.
-- A gate g has its name, and the keys of its own: waiting, rate, stop.
-- include rate
-- include less
local gates, slots, admitted, waiting, limits
local function use_gates(key)
  gates, slots, admitted, waiting, limits = unpack(KEYS, key, key + 4)
end

local function gate_at(name, key)
  return { name = name, waiting = KEYS[key], rate = KEYS[key + 1], stop = KEYS[key + 2] }
end

-- may_use: nil if nothing can stop the changes of slots and admissions half-way; else the error. may_look: the
-- same of look and admit.
local function may_use()
  return may_less(gates) or must_be(slots, 'hash', 'HSET', slots, '', '') or may('HGET', slots, '') or may('HDEL', slots, '')
    or must_be(admitted, 'hash', 'HSET', admitted, '', '') or may('HSETNX', admitted, '', '') or may('HGET', admitted, '')
    or may('HDEL', admitted, '') or must_be(waiting, 'zset', 'ZADD', waiting, '0', '') or may('ZREM', waiting, '')
end

local function may_look(g)
  return must_be(limits, 'hash', 'HGET', limits, '') or may('HMGET', gates, '') or may('PTTL', g.stop) or may_rate(g.rate)
    or must_be(g.waiting, 'list', 'LPUSH', g.waiting, '') or may('RPUSH', g.waiting, '') or may('LINDEX', g.waiting, '0')
    or may('RPOP', g.waiting) or may('LLEN', g.waiting)
end

-- look: reads how many more jobs of a gate may start or be admitted now (room), and in how many ms to look
-- again if none may. g.size, if it is not empty, is used if no size is stored. If there is no size at all, or
-- the size is that of a class whose jobs are dropped, it returns false, and there is room for all.
local function look(g, now_ms)
  local stored = redis.call('HGET', limits, string.match(g.name, '^[^:]*'))
  local most, kind, n, ms = string.match(stored or g.size or '', '^(%S+) (%S+) (%d+) (%d+)')
  g.drops, g.stored = most == 'drop', stored
  if not most or g.drops then
    g.room, g.wait_ms = math.huge, 0
    return false
  end
  local counts = redis.call('HMGET', gates, g.name .. '\nr', g.name .. '\na')
  g.kind, g.n, g.ms = kind, tonumber(n), tonumber(ms)
  local in_hand = tonumber(counts[2] or 0)
  g.room, g.wait_ms = (tonumber(most) or math.huge) - tonumber(counts[1] or 0) - in_hand, 5000
  local stopped = redis.call('PTTL', g.stop)
  if stopped > 0 then
    g.room, g.wait_ms = 0, stopped
  elseif kind ~= 'none' and g.ms > 0 then
    local next_ms
    g.permits, next_ms = permits(g, now_ms)
    if g.permits - in_hand < g.room then
      -- A rate above 50 a second collects its permits for 20 ms, or the poller would look for each.
      g.room, g.wait_ms = g.permits - in_hand, math.max(next_ms, g.n * 20 > g.ms and 20 or 1)
    end
  end
  g.wait_ms = math.min(g.wait_ms, 5000)
  return true
end

-- keep_size: stores the size of the program, if it has one, for a limit that has none. g is looked at.
local function keep_size(g, seconds)
  if g.kind and not g.stored then
    redis.call('HSETNX', limits, string.match(g.name, '^[^:]*'), g.size .. ' code ' .. seconds)
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
-- them. g is looked at. list_of returns the list of a queue; nil if that waiter must not leave in this call;
-- and true if it leaves without being admitted. Returns how many left, and the queue of the one that stopped
-- it. To the back: at the head, the waiters of a gate that is always full would keep all other jobs of the
-- queue from ever being taken.
local function admit(g, most, queues, now_ms, list_of)
  local moved, granted, elsewhere = 0, 0, nil
  while moved < most and g.room > 0 do
    local entry = redis.call('LINDEX', g.waiting, -1)
    if not entry then
      break
    end
    local queue, bytes = string.match(entry, '^([^\n]*)\n(.*)$')
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
    local counts = plain and 0 or grant(redis.sha1hex(bytes), now_ms, g.name, queue)
    moved, granted, g.room = moved + 1, granted + counts, g.room - counts
  end
  if granted > 0 then
    redis.call('HINCRBY', gates, g.name .. '\na', granted)
  end
  if redis.call('LLEN', g.waiting) == 0 then
    redis.call('ZREM', waiting, g.name)
  else
    redis.call('ZADD', waiting, look_again(g, now_ms), g.name)
  end
  return moved, elsewhere
end
