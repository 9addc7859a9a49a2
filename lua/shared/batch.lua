-- batch: what a batch has in Redis. Its keys are, from b.key on: info (a hash), pending, failed and dead (sets
-- of jids; dead is a part of failed, and failed of pending), the list of its callbacks' queue, batches (all
-- batches by the second of their expiry), queues (the set of names), and the channel of what has ended. b.of is
-- "BID/QUEUE", the field of its members. pending has the members that are not done, and "not sealed" until the
-- batch is sealed; failed those that have failed and are not done; dead those that died.

-- may_count: nil if nothing can stop count half-way; else the error. most is nil, or count only ends so many
-- members as done, or fewer. Then it sets b.far if more have not run and none has died: nothing can be called,
-- count needs few commands, and only these are checked. A large batch is far from its end nearly always.
local function may_count(b, most)
  local info, pending, failed, dead, list, batches = unpack(KEYS, b.key, b.key + 5)
  local left, fell = most and redis.pcall('SCARD', pending), most and redis.pcall('SCARD', failed)
  b.far = type(left) == 'number' and type(fell) == 'number' and left - fell > most
    and (fell == 0 or redis.pcall('SCARD', dead) == 0)
  b.some_failed = b.far and fell > 0
  if b.far then
    return may('SREM', pending, '') or b.some_failed and may('SREM', failed, '') or nil
  end
  return must_be(info, 'hash', 'HSETNX', info, '', '') or may('HMGET', info, '') or may('HINCRBY', info, '', '0')
    or must_be(pending, 'set', 'SREM', pending, '') or may('SMISMEMBER', pending, '') or may('SCARD', pending)
    or must_be(failed, 'set', 'SADD', failed, '') or may('SREM', failed, '') or may('SCARD', failed)
    or must_be(dead, 'set', 'SADD', dead, '') or may('SREM', dead, '') or may('SCARD', dead)
    or must_be(list, 'list', 'LPUSH', list, '') or must_be(batches, 'zset', 'ZADD', batches, '0', '')
end

-- store: stores the job of a field of the batch, if there is one. Its text lacks enqueued_at and the end.
local function store(b, field, now_ms)
  local text, unit = unpack(redis.call('HMGET', KEYS[b.key], field, 'unit'))
  if text then
    local stamp = unit == 'ms' and string.format('%.0f', now_ms) or string.format('%.3f', now_ms / 1000)
    follow(KEYS[b.key + 6], KEYS[b.key + 4], string.match(b.of, '/(.*)$'), text .. ',"enqueued_at":' .. stamp .. '}')
  end
end

-- call: stores a callback of the batch, unless it was called before. Returns whether it was not.
local function call(b, what, now_ms)
  local info, batches, bid = KEYS[b.key], KEYS[b.key + 5], string.match(b.of, '^[^/]*')
  if redis.call('HSETNX', info, what .. '_at', string.format('%.0f', now_ms)) == 0 then
    return false
  end
  store(b, 'on_' .. what, now_ms)
  if what == 'success' then
    redis.call('ZADD', batches, math.floor(now_ms / 1000) + 86400, bid)
  end
  redis.pcall('PUBLISH', KEYS[b.key + 7], 'batch ' .. bid) -- a hint
  return true
end

-- remove: members are pending no more. Returns how many were.
local function remove(b, jids)
  local pending, failed, dead = unpack(KEYS, b.key + 1, b.key + 3)
  if #jids > 0 and b.some_failed then
    redis.call('SREM', failed, unpack(jids))
    if not b.far then -- else none has died
      redis.call('SREM', dead, unpack(jids))
    end
  end
  return #jids > 0 and redis.call('SREM', pending, unpack(jids)) or 0
end

-- count: counts what became of members, and calls the callbacks that this decides. b.failed, b.died, b.done,
-- b.removed and b.revived are lists of jids. Those that are no members any more count nowhere. b.death is true
-- if a member has died that may be alive again.
local function count(b, now_ms)
  if b.far then
    remove(b, b.done)
    return
  end
  local info, pending, failed, dead = unpack(KEYS, b.key, b.key + 3)
  if redis.call('TYPE', info).ok == 'none' then -- must_be has used TYPE before
    return
  end
  local function members(jids)
    local still = {}
    if #jids > 0 then
      for at, is in ipairs(redis.call('SMISMEMBER', pending, unpack(jids))) do
        if is == 1 then
          still[#still + 1] = jids[at]
        end
      end
    end
    return still
  end
  local fell, died, had_dead = members(b.failed), members(b.died), redis.call('SCARD', dead) > 0
  if #fell > 0 then
    redis.call('SADD', failed, unpack(fell))
    if had_dead then -- the end job of a nested batch counts as dead while that has dead members
      redis.call('SREM', dead, unpack(fell))
    end
  end
  if #died > 0 then
    redis.call('SADD', failed, unpack(died))
    if redis.call('SADD', dead, unpack(died)) > 0 then -- an operator may retry them while they are in the dead set
      local keep_seconds = tonumber(redis.call('HMGET', info, 'keep_dead')[1] or 0)
      redis.call('ZADD', KEYS[b.key + 5], 'GT', math.floor(now_ms / 1000) + keep_seconds, string.match(b.of, '^[^/]*'))
    end
  end
  local first = (#died > 0 or b.death) and call(b, 'death', now_ms)
  if #b.revived > 0 then
    redis.call('SREM', dead, unpack(b.revived))
  end
  b.some_failed = redis.call('SCARD', failed) > 0
  remove(b, b.done)
  local removed = remove(b, b.removed)
  if removed > 0 then
    redis.call('HINCRBY', info, 'removed', removed)
  end
  local left = redis.call('SCARD', pending)
  if first or left > 0 and had_dead ~= (b.some_failed and redis.call('SCARD', dead) > 0) then
    store(b, 'on_nested', now_ms) -- its parent's turn; at its success the end job counts there
  end
  if left == (b.some_failed and redis.call('SCARD', failed) or 0) then
    call(b, 'complete', now_ms)
  end
  if left == 0 then
    call(b, 'success', now_ms)
  end
end
