-- note_up: if no process is alive at this instant, the time in which one always was begins now. It is called
-- before a process becomes alive. pcall: a session must not fail because of it.
local function note_up(alive, up, now_ms)
  local latest = redis.call('ZRANGE', alive, 0, 0, 'REV', 'WITHSCORES')[2]
  if not latest or tonumber(latest) <= now_ms then
    redis.pcall('SET', up, string.format('%.0f', now_ms))
  end
end
