-- slot: what becomes of the slot of a job that has moved, or of its admission. "frees": the run has ended, and
-- waiters of the gate are admitted. "waits": the run has ended too, the job waits first, and the gate starts
-- nothing for a while. "keeps": the job goes back to its queue, where it is admitted. "leaves": the slot is
-- freed, and the poller admits the waiters.
-- The keys of a part are those of use_gates, and with "frees" after them: paused queues, queues (the set of
-- names), and the lists of some queues. Its text are the names of these queues, each on a line; with the others
-- the job's queue; empty with "waits" for a job that does not wait. Its arguments are, for "frees" and "waits":
-- the gate's name, the position of the gate's keys; and for "waits" the ms of the stop.
-- include gate
local freed, freed_in_order, gone, is_gone, named = {}, {}, {}, {}, {}
local ledger, lists, paused, queue_names -- ledger: whether there is any slot or admission
local at_ms

local function may_slot(part)
  local first = part.at
  if ledger == nil then
    use_gates(part.key)
    ledger = redis.call('EXISTS', slots, admitted) > 0
    local wrong = ledger and may_use() or may('EXISTS', slots, admitted)
    if wrong then
      return wrong
    end
  end
  if part.name == 'frees' and not lists then
    lists, paused, queue_names = {}, KEYS[part.key + 5], KEYS[part.key + 6]
    local at = part.key + 7
    for name in string.gmatch(part.of, '[^\n]+') do
      lists[name], at = KEYS[at], at + 1
    end
  end
  for _ = 1, part.width > 0 and part.group.count or 0 do
    local name = ARGV[first]
    if not named[name] then
      named[name] = gate_at(name, tonumber(ARGV[first + 1]))
    end
    if part.name == 'waits' then
      part.group.waits = true
      local g = named[name]
      local wrong = may_use() or may_look(g) or may('SET', g.stop, '')
      if wrong then
        return wrong
      end
    end
    first = first + part.group.step
  end
end

-- leave_slot: the name of the gate in which a job had a slot. It has none from now on.
local function leave_slot(hash, admits)
  local name = ledger and not is_gone[hash] and redis.call('HGET', slots, hash)
  if name then
    gone[#gone + 1], is_gone[hash] = hash, true
    local counts = freed[name]
    if not counts then
      counts = { slots = 0, room = 0 }
      freed[name], freed_in_order[#freed_in_order + 1] = counts, name
    end
    counts.slots, counts.room = counts.slots + 1, counts.room + (admits and 1 or 0)
  end
  return name
end

-- pass_on: the admission of a job that has not started goes with it, or is over.
local function pass_on(hash, new_hash)
  local had = ledger and redis.call('HGET', admitted, hash)
  if not had or hash == new_hash then
    return
  end
  redis.call('HDEL', admitted, hash)
  local since, name, queue = string.match(had, '^(%-?%d+)\n([^\n]*)\n([^\n]*)$')
  if not since or string.sub(since, 1, 1) == '-' then
    if new_hash then
      redis.call('HSETNX', admitted, new_hash, had)
    end
  elseif not new_hash or grant(new_hash, tonumber(since), name, queue) == 0 then
    less(gates, name .. '\na', 1)
    redis.call('ZADD', waiting, 'XX', 0, name)
  end
end

local function stop_gate(part, at, bytes, now_ms)
  local g, stop_ms = named[ARGV[at]], tonumber(ARGV[at + 2])
  if stop_ms > 0 and redis.call('PTTL', g.stop) < stop_ms then
    redis.call('SET', g.stop, '1', 'PX', stop_ms)
  end
  if part.of ~= '' then
    redis.call('RPUSH', g.waiting, part.of .. '\n' .. bytes)
    redis.call('ZADD', waiting, 'LT', string.format('%.3f', now_ms / 1000), g.name)
  end
end

local function over_slot(part, job, now_ms)
  local group, at = part.group, part.at + (job - 1) * part.group.step
  local bytes = ARGV[group.first + (job - 1) * group.step]
  local hash = redis.sha1hex(bytes)
  at_ms = now_ms
  local name = leave_slot(hash, part.name ~= 'keeps')
  if not name and part.name ~= 'keeps' then
    pass_on(hash) -- its start is not in Redis any more, or it was never sent
  end
  if part.name == 'waits' then
    stop_gate(part, at, bytes, now_ms)
  elseif part.name == 'keeps' then
    local new_hash = group.own > 1 and redis.sha1hex(ARGV[group.first + (job - 1) * group.step + 1]) or hash
    if not name then
      pass_on(hash, new_hash)
    elseif grant(new_hash, now_ms, name, part.of) == 1 then
      redis.call('HINCRBY', gates, name .. '\na', 1)
    end
  end
end

local function list_to_admit(queue)
  local list = lists and lists[queue]
  -- A queue that may not be read is left to the poller, which reports the error.
  return list and redis.pcall('SISMEMBER', paused, queue) == 0 and list or nil
end

local function finish_slots()
  if #gone > 0 then
    redis.call('HDEL', slots, unpack(gone))
  end
  for _, name in ipairs(freed_in_order) do
    local counts, g = freed[name], named[name]
    less(gates, name .. '\nr', counts.slots)
    if counts.room > 0 and redis.call('ZSCORE', waiting, name) then
      -- The freed slots, and one more: so the gate fills up again after its limit was raised.
      if lists and g and not may_look(g) and look(g, at_ms) then
        admit(g, counts.room + 1, queue_names, at_ms, list_to_admit)
      else
        redis.call('ZADD', waiting, string.format('%.3f', at_ms / 1000), name)
      end
    end
  end
end

kinds.frees = { may = may_slot, over = over_slot, finish = finish_slots }
kinds.waits = kinds.frees
kinds.keeps = kinds.frees
kinds.leaves = kinds.frees
