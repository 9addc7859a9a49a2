-- may: nil when this user may do this, else the error. A command that is denied only after a job has left its list would lose
-- the job. (miniredis cannot be asked.)
local function may(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user may not ' .. command .. ' ' .. key)
  end
end

-- must_be: nil when a key is of this kind or not there at all, and this user may do to it what follows; else the error.
-- For the checks that stand before a script's first write.
local function must_be(key, kind, ...)
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. kind)
  end
  return may(...)
end
