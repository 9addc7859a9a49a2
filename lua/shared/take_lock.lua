-- take_lock: take a lock for a job, if it is free. A key that is not a string is not a lock, and becomes one,
-- as in push_unique.
-- It needs TYPE, which must_be has used before, and SET. An error of the index is ignored: the index is only
-- for people, and the job must not look as if it had not moved.
local function take_lock(lock, index, digest, owner, hold_ms, now_ms)
  if redis.call('TYPE', lock).ok ~= 'string' then
    local until_ms = string.format('%.0f', now_ms + hold_ms)
    redis.call('SET', lock, string.format('-%s%.0f', owner, now_ms), 'PXAT', until_ms)
    redis.pcall('ZADD', index, until_ms, digest)
  end
end
