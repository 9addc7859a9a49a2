-- unlock: what the end of a run means for the job's lock, if it is still the job's own: held on to while the job lives on,
-- else handed to the one more run that a duplicate asked for, else freed. First meet is told of each lock, then may_unlock reads
-- them all at once, unlock is told of the jobs that have moved, and unlocked does for many what can be done at once: a command for
-- each would cost more than all the rest of a batch.
-- ARGV from at: position of the lock's key, digest, owner, ms to hold it on; and for a job that may run once more: owner and bytes
-- of that run, position of its queue's key, the queue's bare name. "" for the first of these: it may not.
-- A lock's value is a state, its owner, and since when the owner has it, in ms by Redis' clock, which no script compares.
-- The states are "-": no run of the owner has started. "s": one has, and a duplicate that comes now is not served by it.
-- "d" (dirty): such a duplicate was refused, and is to be run for.
local met, met_keys, states, freed, freed_digests, renewed = {}, {}, {}, {}, {}, {}
local function meet(at)
  met[#met + 1] = at
  met_keys[#met_keys + 1] = KEYS[tonumber(ARGV[at])]
end

-- may_unlock: nil when unlock and unlocked would meet nothing that stops them half-way; else the error.
local function may_unlock(index, queues)
  -- MGET: a key that is no lock reads as none, and is nobody's.
  local values = #met > 0 and redis.pcall('MGET', unpack(met_keys)) or {}
  if values.err then
    return values
  end
  local wrong
  for number, at in ipairs(met) do
    local value, owner = values[number], ARGV[at + 2]
    if value and string.sub(value, 2, #owner + 1) == owner then
      -- Locks differ by their digest alone: who may write one may write all.
      local lock = met_keys[number]
      wrong = wrong or next(states) == nil and (may('SET', lock, '') or may('DEL', lock)
        or must_be(index, 'zset', 'ZADD', index, '0', '')) or nil
      states[at] = string.sub(value, 1, 1)
      if ARGV[at + 4] ~= '' then
        local queue = KEYS[tonumber(ARGV[at + 6])]
        wrong = wrong or must_be(queues, 'set', 'SADD', queues, '') or must_be(queue, 'list', 'LPUSH', queue, '')
      end
    end
  end
  return wrong
end

local function unlock(at, lives_on, queues, now_ms)
  local lock, digest, ms = KEYS[tonumber(ARGV[at])], ARGV[at + 1], tonumber(ARGV[at + 3])
  if not states[at] then
    return
  end
  local again = not lives_on and ARGV[at + 4] ~= '' and states[at] == 'd'
  if again then
    redis.call('SET', lock, '-' .. ARGV[at + 4] .. now_ms, 'PX', ms)
    redis.call('SADD', queues, ARGV[at + 7])
    redis.call('LPUSH', KEYS[tonumber(ARGV[at + 6])], ARGV[at + 5])
  elseif lives_on then
    redis.call('PEXPIRE', lock, ms)
  else
    freed[#freed + 1], freed_digests[#freed_digests + 1] = lock, digest
    return
  end
  renewed[#renewed + 1] = now_ms + ms
  renewed[#renewed + 1] = digest
end

local function unlocked(index)
  if #freed > 0 then
    redis.call('DEL', unpack(freed))
    redis.call('ZREM', index, unpack(freed_digests))
  end
  if #renewed > 0 then
    redis.call('ZADD', index, unpack(renewed))
  end
end
