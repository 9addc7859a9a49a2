-- busy: whether a lease is held, seen by a process that would hold it for hold_ms. A lease with more time left
-- than that was written before the clock was set back. A living holder shortens it when it asks again. A dead
-- holder's lease would last until the clock has caught up, so it counts as free.
local function busy(lease, hold_ms)
  local left_ms = redis.call('PTTL', lease)
  return left_ms >= 0 and left_ms <= tonumber(hold_ms)
end
