-- may: nil if this user may call the command, else the error. A command that is denied only after a job has
-- left its list would lose the job. (miniredis cannot check this.)
local function may(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user may not ' .. command .. ' ' .. key)
  end
end

-- must_be: nil if a key has this type or does not exist, and this user may call the command on it; else the
-- error. For the checks before a script's first write.
local function must_be(key, kind, ...)
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. kind)
  end
  return may(...)
end
