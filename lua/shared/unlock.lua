-- unlock: changes the lock of a job whose run ends, if the lock is still the job's own. If the job continues,
-- the lock is prolonged. If it ends, the lock passes to the extra run that a refused duplicate needs, or is
-- freed. First may_unlock reads the locks of a group, then unlock is called for each job that has moved, and
-- then unlocked (see list_lock).
-- A group's locks are the keys from group.lock on, one for each of its group.count jobs, which live on if
-- group.lives_on is set. ARGV from group.locks on, and then every group.step: digest, owner, ms to hold it
-- on; if group.again is set, also owner and bytes of one more run, position of its queue's key, the queue's
-- bare name.
-- A lock's value has a state, the owner, the time when the owner took it (ms by Redis' clock; no script
-- compares it), and after that the positions that refused duplicates left (see push_unique), which stay with
-- the lock when it passes to another job.
-- The states are "-": no run of the owner has started, or the owner's rule has no extra run. "s": a run has
-- started, and does not serve a duplicate that comes now. "d" (dirty): such a duplicate was refused, and one
-- more run will serve it. "k" (kept): it stays until it expires; see push_unique.
-- include list_lock
local dirty = string.byte('d')

-- may_unlock: nil if nothing can stop unlock and unlocked half-way; else the error.
local function may_unlock(group)
  -- MGET: a key that is no lock reads as none, and belongs to no job.
  local values = redis.pcall('MGET', unpack(KEYS, group.lock, group.lock + group.count - 1))
  if values.err then
    return values
  end
  local states, left, own, at, wrong = {}, {}, nil, group.locks, nil
  for job = 1, group.count do
    local value, owner = values[job], ARGV[at + 1]
    states[job] = value and string.sub(value, 2, #owner + 1) == owner and string.byte(value)
    if states[job] then
      own = own or KEYS[group.lock + job - 1]
      if group.again and states[job] == dirty and not wrong then
        local queue = KEYS[tonumber(ARGV[at + 5])]
        left[job] = string.match(value, '^%d+(\n.*)$', #owner + 2)
        wrong = must_be(queue, 'list', 'LPUSH', queue, '')
      end
    end
    at = at + group.step
  end
  group.states, group.left = states, left
  -- Locks differ only by their digest: a user that may write one may write all.
  return wrong or own and (may('SET', own, '') or may('PEXPIRE', own, '0') or may('DEL', own)) or nil
end

local function unlock(group, job, queues, now_ms)
  local state, lock, at = group.states[job], KEYS[group.lock + job - 1], group.locks + (job - 1) * group.step
  if not state then
    return
  elseif not group.lives_on and not (group.again and state == dirty) then
    return free(lock, ARGV[at])
  end
  local until_ms = list(ARGV[at], now_ms + ARGV[at + 2])
  if group.lives_on then
    redis.call('PEXPIRE', lock, ARGV[at + 2])
    return
  end
  local value = string.format('-%s%.0f', ARGV[at + 3], now_ms) .. (group.left[job] or '')
  redis.call('SET', lock, value, 'PXAT', until_ms)
  redis.call('LPUSH', KEYS[tonumber(ARGV[at + 5])], ARGV[at + 4])
  redis.pcall('SADD', queues, ARGV[at + 6]) -- the job is there, even if this fails
end
