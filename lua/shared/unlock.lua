-- unlock: what the end of a run means for the job's lock, if it is still the job's own: held on to while the job lives on,
-- else handed to the one more run that a duplicate asked for, else freed. ARGV from at: position of the lock's key, digest,
-- owner, ms to hold it on; and for a job that may run once more: owner and bytes of that run, position of its queue's key,
-- the queue's bare name. "" for the first of these: it may not.
-- A lock's value is a state, its owner, and since when the owner has it, in ms by Redis' clock, which no script compares.
-- The states are "-": no run of the owner has started. "s": one has, and a duplicate that comes now is not served by it.
-- "d" (dirty): such a duplicate was refused, and is to be run for.
local function unlock(at, lives_on, index, queues, now_ms)
  local lock, digest, ms = KEYS[tonumber(ARGV[at])], ARGV[at + 1], tonumber(ARGV[at + 3])
  local value, owner = redis.call('GET', lock), ARGV[at + 2]
  if not value or string.sub(value, 2, #owner + 1) ~= owner then
    return
  end
  if lives_on then
    redis.call('PEXPIRE', lock, ms)
    redis.call('ZADD', index, now_ms + ms, digest)
  elseif ARGV[at + 4] ~= '' and string.sub(value, 1, 1) == 'd' then
    redis.call('SET', lock, '-' .. ARGV[at + 4] .. now_ms, 'PX', ms)
    redis.call('ZADD', index, now_ms + ms, digest)
    redis.call('SADD', queues, ARGV[at + 7])
    redis.call('LPUSH', KEYS[tonumber(ARGV[at + 6])], ARGV[at + 5])
  else
    redis.call('DEL', lock)
    redis.call('ZREM', index, digest)
  end
end

-- may_unlock: nil when unlock would meet nothing that stops it half-way; else the error.
local function may_unlock(at, index, queues)
  local lock, owner = KEYS[tonumber(ARGV[at])], ARGV[at + 2]
  local value = redis.pcall('GET', lock)
  if type(value) == 'table' then
    return value -- no lock, or one that this user may not read
  elseif not value or string.sub(value, 2, #owner + 1) ~= owner then
    return nil -- and nothing will be done
  end
  return must_be(lock, 'string', 'SET', lock, '') or must_be(lock, 'string', 'DEL', lock)
    or must_be(index, 'zset', 'ZADD', index, '0', '')
    or ARGV[at + 4] ~= '' and (must_be(queues, 'set', 'SADD', queues, '')
      or must_be(KEYS[tonumber(ARGV[at + 6])], 'list', 'LPUSH', KEYS[tonumber(ARGV[at + 6])], '')) or nil
end
