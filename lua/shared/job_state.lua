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
