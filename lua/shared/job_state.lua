-- The state of a job is a hash, which is Sidekiq's own of an iterable job. It has a version, which grows with
-- each write, and the created_at of its job: state of an earlier job with the same jid is deleted.
local function may_write_state(state)
  return may('HSET', state, '', '') or may('HMGET', state, '') or may('HDEL', state, '') or may('EXPIRE', state, '0') or may('DEL', state)
end

-- state_version: the version of a job's state; 0 if there is none.
local function state_version(state, created)
  local held = redis.call('TYPE', state).ok == 'hash' and redis.call('HMGET', state, 'belay_version', 'belay_created') or {}
  if held[2] == created or held[1] == false and held[2] == false then
    return tonumber(held[1] or 0)
  end
  redis.call('DEL', state)
  return 0
end

-- write_state: write the fields from ARGV[first] on: name, value; an empty value removes the field. A state
-- always says where the job begins, unless the caller removes its cursor: without one, Sidekiq's loader raises
-- in an iterable job. Its text for the first item is null.
local function write_state(state, created, version, ttl_seconds, first, count)
  local set, gone = { 'belay_version', string.format('%.0f', version), 'belay_created', created }, {}
  local begins = redis.call('HMGET', state, 'c')[1]
  for at = first, first + 2 * count - 2, 2 do
    begins = begins or ARGV[at] == 'c'
    if ARGV[at + 1] == '' then
      gone[#gone + 1] = ARGV[at]
    else
      set[#set + 1], set[#set + 2] = ARGV[at], ARGV[at + 1]
    end
  end
  if not begins then
    set[#set + 1], set[#set + 2] = 'c', 'null'
  end
  redis.call('HSET', state, unpack(set))
  if #gone > 0 then
    redis.call('HDEL', state, unpack(gone))
  end
  redis.call('EXPIRE', state, ttl_seconds)
end

-- list_completed: add a tracked job that has ended to the completed jobs, or give it its new time. It removes
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

-- end_state: write or delete the state of a job that has moved, one of a group's group.count jobs. Their
-- states are the keys from group.state on, and the key after them is that of the completed jobs. ARGV from
-- group.states_at on, and then every group.step: created_at, the highest version that the caller used, seconds
-- to keep the state (0 deletes it), group.fields fields. The field belay_completed has the jid of a job that is
-- kept nowhere but in its state.
local function end_state(group, job)
  local state, at = KEYS[group.state + job - 1], group.states_at + (job - 1) * group.step
  if ARGV[at + 2] == '0' then
    redis.call('DEL', state)
    return
  end
  local version = math.max(state_version(state, ARGV[at]), tonumber(ARGV[at + 1])) + 1
  write_state(state, ARGV[at], version, ARGV[at + 2], at + 3, group.fields)
  for field = at + 3, at + 1 + 2 * group.fields, 2 do
    if ARGV[field] == 'belay_completed' then
      list_completed(KEYS[group.state + group.count], ARGV[field + 1], ARGV[at + 2])
    end
  end
end
