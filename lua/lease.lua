#!lua flags=allow-oom
-- lease: let one process at a time do something that several need not do at once.
-- Why a script: SET is refused by a full Redis, and a duty must not stop then. Nothing depends on a lease being held by
-- one only: it saves work, it guards nothing.
-- A lease that has longer to run than anybody asks for was set before the clock was set back. Its holder prolongs it to
-- what is right; if he is dead it would stand until the clock has caught up, an hour for an hour, so it counts as free.
-- Where processes ask for different times, the one that asks for the least may take it from the others; then it stays there.
-- KEYS     1 lease
-- ARGV     1 holder  2 ms to hold it
-- Returns  "held" (ours, also if it was before) | "busy"
-- Again    prolongs it
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
