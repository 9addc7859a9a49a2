#!lua flags=allow-oom
-- lease: let one process at a time do something that several need not do at once.
-- Why a script: SET is refused by a full Redis, and a duty must not stop then. Nothing depends on a lease being held by
-- one only: it saves work, it guards nothing.
-- KEYS     1 lease
-- ARGV     1 holder  2 ms to hold it
-- Returns  "held" (ours, also if it was before) | "busy"
-- Again    prolongs it
-- Cost     O(1)
local lease = KEYS[1]
local holder, hold_ms = ARGV[1], ARGV[2]

local now = redis.call('GET', lease)
if now and now ~= holder then
  return 'busy'
end
redis.call('SET', lease, holder, 'PX', hold_ms)
return 'held'
