-- subscribers: how many subscriptions a channel has on this server; -1 if the user may not ask. pcall: a
-- denied command must not stop what works without it.
local function subscribers(channel)
  return redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or -1
end
