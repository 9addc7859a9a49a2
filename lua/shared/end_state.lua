-- include job_state
-- list_completed: adds a tracked job that has ended to the completed jobs, or gives it its new time. It removes
-- the oldest: those beyond 10,000, and at most 256 of those that ended so long ago that no state is left. So
-- the key expires with the last state, and its TTL is the longest time that any state is kept.
-- pcall: the job has ended, and a denied command must not make that look like a failure.
local function list_completed(completed, jid, keep_seconds)
  local time, most = redis.call('TIME'), 10000
  local longest = math.max(tonumber(keep_seconds), math.ceil((tonumber(redis.pcall('PTTL', completed)) or 0) / 1000))
  redis.pcall('ZADD', completed, string.format('%d.%06d', time[1], time[2]), jid)
  redis.pcall('EXPIRE', completed, longest)
  redis.pcall('ZREMRANGEBYRANK', completed, 0, -1 - most)
  local expired = tonumber(redis.pcall('ZCOUNT', completed, '-inf', time[1] - longest)) or 0
  if expired > 0 then
    redis.pcall('ZREMRANGEBYRANK', completed, 0, math.min(expired, 256) - 1)
  end
end

-- end_state: writes or deletes the state of a job that has moved. The keys of a part are that of the completed
-- jobs, and the states. Its arguments are, for each job: created_at, the highest version that the caller used,
-- seconds to keep the state (0 deletes it), and the fields. The field belay_completed has the jid of a job that
-- is kept nowhere but in its state.
local function end_state(part, job)
  local state, at = KEYS[part.key + job], part.at + (job - 1) * part.group.step
  if ARGV[at + 2] == '0' then
    redis.call('DEL', state)
    return
  end
  local version = math.max(state_version(state, ARGV[at]), tonumber(ARGV[at + 1])) + 1
  write_state(state, ARGV[at], version, ARGV[at + 2], at + 3, (part.width - 3) / 2)
  for field = at + 3, at + part.width - 2, 2 do
    if ARGV[field] == 'belay_completed' then
      list_completed(KEYS[part.key], ARGV[field + 1], ARGV[at + 2])
    end
  end
end

-- States differ only by their jid: a user that may write one may write all.
kinds.state = { may = function(part) return may_write_state(KEYS[part.key + 1]) end, over = end_state }
