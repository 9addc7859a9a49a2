-- slot: what becomes of the slot of a job that has moved, or of its admission. "frees": the run has ended, and
-- waiters of the gate are admitted. "waits": the run has ended too, the job waits first, and the gate starts
-- nothing for a while. "keeps": the job goes back to its queue, where it is admitted. "leaves": the slot is
-- freed, and the poller admits the waiters.
-- The keys of a part are those of use_gates, and with "frees" after them: paused queues, queues (the set of
-- names), and the lists of some queues. Its text are the names of these queues, each on a line; with the
-- others the job's queue; empty with "waits" for a job that does not wait. Its arguments are, for each job:
-- the SHA-1 of its bytes; for "frees" and "waits" also the gate's name, and the position of the gate's keys;
-- and for "waits" the ms of the stop.
-- include gate
local freed, freed_in_order, gone, is_gone, named = {}, {}, {}, {}, {} -- named: positions of keys, by gate
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
  local group, asked, hashes, step, has_gate = part.group, {}, {}, part.group.step, part.width > 1
  for job = 1, group.count do
    hashes[job] = ARGV[first]
    if has_gate then
      local name = ARGV[first + 1]
      named[name] = named[name] or ARGV[first + 2]
      if part.name == 'waits' then
        asked[job] = gate_at(name, tonumber(named[name]))
      end
    end
    first = first + step
  end
  if #asked > 0 then
    group.waits = true
    local g = asked[1]
    local wrong = may_use() or may_look(asked) or may('PTTL', g.stop) or may('SET', g.stop, '') or may('RPUSH', g.waiting, '')
    if wrong then
      return wrong
    end
  end
  -- The slots of all jobs of the group: a command costs as much as several fields.
  part.hashes, part.slots = hashes, {}
  if ledger and group.count > 0 then
    part.slots = redis.call('HMGET', slots, unpack(hashes))
  end
end

-- leave_slot: whether a job leaves the slot that it had in a gate. An equal job may have left it in this call.
local function leave_slot(hash, name, admits)
  if not name or is_gone[hash] then
    return false
  end
  gone[#gone + 1], is_gone[hash] = hash, true
  local g = freed[name]
  if not g then
    g = { name = name, r = false, slots = 0, room = 0 }
    freed[name], freed_in_order[#freed_in_order + 1] = g, g
  end
  g.slots, g.room = g.slots + 1, g.room + (admits and 1 or 0)
  return true
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
  elseif not new_hash or grant({ new_hash }, tonumber(since), name, queue) == 0 then
    change_count(name .. '\na', -1)
    redis.call('ZADD', waiting, 'XX', 0, name)
  end
end

local function stop_gate(part, at, bytes, now_ms)
  local g, stop_ms = gate_at(ARGV[at + 1], tonumber(named[ARGV[at + 1]])), tonumber(ARGV[at + 3])
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
  local hash = part.hashes[job]
  at_ms = now_ms
  local name = part.slots[job]
  local left = leave_slot(hash, name, part.name ~= 'keeps')
  if not left and part.name ~= 'keeps' then
    pass_on(hash) -- its start is not in Redis any more, or it was never sent
  end
  if part.name == 'waits' then
    stop_gate(part, at, bytes, now_ms)
  elseif part.name == 'keeps' then
    local new_hash = group.own > 1 and redis.sha1hex(ARGV[group.first + (job - 1) * group.step + 1]) or hash
    if not left then
      pass_on(hash, new_hash)
    elseif grant({ new_hash }, now_ms, name, part.of) == 1 then
      change_count(name .. '\na', 1)
    end
  end
end

local runs = {} -- queues that are not paused
local function list_to_admit(queue)
  local list = lists and lists[queue]
  if list and runs[queue] == nil then
    -- A queue that may not be read is left to the poller, which reports the error.
    runs[queue] = redis.pcall('SISMEMBER', paused, queue) == 0
  end
  return list and runs[queue] and list or nil
end

local function finish_slots()
  if #gone > 0 then
    redis.call('HDEL', slots, unpack(gone))
  end
  local asked, elsewhere = {}, {}
  if #freed_in_order > 0 then
    local names = {}
    read_counts(freed_in_order, 'r')
    for at, g in ipairs(freed_in_order) do
      change_count(g.r, -g.slots)
      names[at] = g.name
    end
    -- Mostly no gate at all has waiters.
    for at, looks_at in ipairs(redis.call('EXISTS', waiting) == 1 and redis.call('ZMSCORE', waiting, unpack(names)) or {}) do
      local name = names[at]
      if looks_at and freed[name].room > 0 and lists and named[name] then
        local g = gate_at(name, tonumber(named[name]))
        g.r, g.looks_at = freed[name].r, tonumber(looks_at)
        asked[#asked + 1] = g
      elseif looks_at and freed[name].room > 0 then
        elsewhere[#elsewhere + 1] = name
      end
    end
  end
  if #asked > 0 then
    read_counts(asked, 'a')
  end
  local admits = #asked > 0 and not may_admit(asked[1]) and not may_look(asked)
  for _, g in ipairs(asked) do
    -- The freed slots, and one more: so the gate fills up again after its limit was raised.
    if admits and look(g, at_ms) then
      admit(g, freed[g.name].room + 1, queue_names, at_ms, list_to_admit)
    else
      elsewhere[#elsewhere + 1] = g.name
    end
  end
  for _, name in ipairs(elsewhere) do
    redis.call('ZADD', waiting, string.format('%.3f', at_ms / 1000), name)
  end
  write_counts()
end

kinds.frees = { may = may_slot, over = over_slot, finish = finish_slots }
kinds.waits = kinds.frees
kinds.keeps = kinds.frees
kinds.leaves = kinds.frees
