-- must_be: nil when a key is of this kind or not there at all, and this user may do to it what follows; else the error.
-- For the checks that stand before a script's first write.
local function must_be(key, kind, ...)
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. kind)
  end
  -- A command that is denied only after the job has left its list would lose it. (miniredis cannot be asked.)
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
    return redis.error_reply('NOPERM this user may not ' .. (...) .. ' ' .. key)
  end
end
