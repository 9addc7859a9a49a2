#!lua flags=allow-oom
-- lease: let one process at a time do something that several need not do at the same time.
-- Why a script: a full Redis refuses SET, and a duty must not stop then. No promise depends on there being only
-- one holder: a lease saves work and is not a mutex.
-- Where processes ask for different times, the one that asks for the least may take it from the others, and
-- keeps it.
-- KEYS     1 lease
-- ARGV     1 holder  2 ms to hold it; 0 gives it up
-- Returns  "held" (ours, also if it was before) | "busy" | "free" (given up: it was ours)
-- Repeat   prolongs it; "busy" after it was given up
-- Cost     O(1)
local lease = KEYS[1]
local holder, hold_ms = ARGV[1], ARGV[2]

-- include busy
local now = redis.call('GET', lease)
if hold_ms == '0' then
  if now ~= holder then
    return 'busy'
  end
  redis.call('DEL', lease)
  return 'free'
end
if now and now ~= holder and busy(lease, hold_ms) then
  return 'busy'
end
redis.call('SET', lease, holder, 'PX', hold_ms)
return 'held'
