#!lua flags=allow-oom
-- free_slots: free the slots that are left in the ledger of a process that is gone.
-- Why one script: a slot is freed once, and the counts of gates change with the ledger.
-- A janitor from before the slots has recovered the process, or its lists were emptied by another hand.
-- KEYS     1 tombstones  2 gates  3 index of gates with waiters  4 ledger of slots  then its working lists and
--          the list of its quarantined job
-- ARGV     1 identity  2 slots at most
-- Returns  how many were freed; 0 if the process lives, or its lists are not empty
-- Repeat   frees what is left
-- Cost     O(slots freed + queues)
local tombstones, gates, waiting, slots = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local identity, most = ARGV[1], tonumber(ARGV[2])
local lists, first_list = KEYS, 5

-- include must_be
-- include less
local wrong = must_be(slots, 'hash', 'HDEL', slots, '') or may('HRANDFIELD', slots, '1')
  or may_less(gates)
  or must_be(waiting, 'zset', 'ZADD', waiting, '0', '')
if wrong then
  return wrong
end
if not redis.call('ZSCORE', tombstones, identity) then
  return 0
end
for list = first_list, #KEYS do
  if redis.call('EXISTS', lists[list]) == 1 then
    return 0
  end
end
local time = redis.call('TIME')
local held = redis.call('HRANDFIELD', slots, most, 'WITHVALUES')
for at = 1, #held, 2 do
  redis.call('HDEL', slots, held[at])
  local name = held[at + 1]
  less(gates, name .. '\nr', 1)
  redis.call('ZADD', waiting, 'XX', time[1], name)
end
return #held / 2
