#!lua flags=allow-oom
-- heads: read the queue of the next waiter of each gate.
-- Why a script: a waiter has the size of a job, and only the name before it is wanted; and a gate whose list
-- was emptied by another hand leaves the index in the step that sees that.
-- KEYS     1 index of gates with waiters  then their waiting lists
-- ARGV     the gates' names
-- Returns  for each the name of the queue; empty if it has no waiters
-- Repeat   the same
-- Cost     O(gates)
local waiting, lists, first_list = KEYS[1], KEYS, 2

-- include must_be
local wrong = must_be(waiting, 'zset', 'ZREM', waiting, '') or may('ZADD', waiting, '0', '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local answer = {}
for at, name in ipairs(ARGV) do
  local entry = redis.pcall('LINDEX', lists[first_list + at - 1], -1)
  answer[at] = type(entry) == 'string' and string.match(entry, '^[^\n]*') or ''
  if not entry then
    redis.call('ZREM', waiting, name)
  elseif type(entry) == 'table' then -- a key of another type: later, or it would be looked at all the time
    redis.call('ZADD', waiting, 'XX', time[1] + 5, name)
  end
end
return answer
