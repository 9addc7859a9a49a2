#!lua flags=allow-oom
-- lease: let one process at a time do work that need not be done twice.
-- Why a script: a full Redis refuses SET, and the work must not stop then. A lease saves work; safety does
-- not depend on it.
-- A lease that lasts longer than any holder asks for was set before the clock was set back. A living holder
-- renews it with the right expiry. With a dead holder it would last until the clock has caught up, so it
-- counts as free.
-- If processes ask for different durations, the one with the shortest may take it from the others, and keeps
-- it.
-- KEYS     1 lease
-- ARGV     1 holder  2 ms to hold it
-- Returns  "held" (now, or already before) | "busy"
-- Again    renews it
-- Cost     O(1)
local lease = KEYS[1]
local holder, hold_ms = ARGV[1], ARGV[2]

local now = redis.call('GET', lease)
if now and now ~= holder then
  local left_ms = redis.call('PTTL', lease)
  if left_ms >= 0 and left_ms <= tonumber(hold_ms) then
    return 'busy'
  end
end
redis.call('SET', lease, holder, 'PX', hold_ms)
return 'held'
