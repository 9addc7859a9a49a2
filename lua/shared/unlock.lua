-- unlock: changes the lock of a job that has moved, if the lock is still the job's own. "hold" prolongs it,
-- because the job continues. "free": the job has ended. Then the lock passes to the next job that a refused
-- duplicate needs, or is freed. First may_unlock reads the locks of a group, then unlock is called for each job
-- that has moved, and then unlocked (see list_lock).
-- The keys of a part are the index of locks, queues (the set of names), and the locks. Its arguments are, for
-- each job: digest, owner, ms to hold it on; and if a next job may follow, also that one's owner and bytes, the
-- position of its queue's key, and the queue's bare name.
-- A lock's value has a state, the owner, the time when the owner took it (ms by Redis' clock; no script
-- compares it), and after that the positions that refused duplicates left (see push_unique), which stay with
-- the lock when it passes to another job.
-- The states are "-": no run of the owner has started, or the owner's rule has no rerun. "s": a run has
-- started, and does not serve a duplicate that comes now. "d" (dirty): such a duplicate was refused, and one
-- more run will serve it. "k" (kept): it stays until it expires; see push_unique.
-- include list_lock
-- include follow
local dirty = string.byte('d')

-- may_unlock: nil if nothing can stop unlock and unlocked half-way; else the error.
local function may_unlock(part)
  local first, count, step = part.key + 2, part.group.count, part.group.step
  -- MGET: a key that is no lock reads as none, and belongs to no job.
  local values = redis.pcall('MGET', unpack(KEYS, first, first + count - 1))
  if values.err then
    return values
  end
  local states, left, own, at, wrong = {}, {}, nil, part.at, nil
  part.follows = part.width > 3
  for job = 1, count do
    local value, owner = values[job], ARGV[at + 1]
    states[job] = value and string.sub(value, 2, #owner + 1) == owner and string.byte(value)
    if states[job] then
      own = own or KEYS[first + job - 1]
      if part.follows and states[job] == dirty and not wrong then
        local queue = KEYS[tonumber(ARGV[at + 5])]
        left[job] = string.match(value, '^%d+(\n.*)$', #owner + 2)
        wrong = must_be(queue, 'list', 'LPUSH', queue, '')
      end
    end
    at = at + step
  end
  part.states, part.left = states, left
  -- Locks differ only by their digest: a user that may write one may write all.
  return wrong or own and (may('SET', own, '') or may('PEXPIRE', own, '0') or may('DEL', own)) or nil
end

local function unlock(part, job, now_ms)
  local state, lock, at = part.states[job], KEYS[part.key + 1 + job], part.at + (job - 1) * part.group.step
  if not state then
    return
  elseif part.name == 'free' and not (part.follows and state == dirty) then
    return free(lock, ARGV[at])
  end
  local until_ms = list(ARGV[at], now_ms + ARGV[at + 2])
  if part.name == 'hold' then
    redis.call('PEXPIRE', lock, ARGV[at + 2])
    return
  end
  local value = string.format('-%s%.0f', ARGV[at + 3], now_ms) .. (part.left[job] or '')
  redis.call('SET', lock, value, 'PXAT', until_ms)
  follow(KEYS[part.key + 1], KEYS[tonumber(ARGV[at + 5])], ARGV[at + 6], ARGV[at + 4])
end

kinds.free = { may = may_unlock, over = unlock, finish = function(part) unlocked(KEYS[part.key]) end }
kinds.hold = kinds.free
