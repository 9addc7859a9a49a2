#!lua flags=allow-oom
-- acquire: take, prolong or give up a slot of a gate for a holder that runs no job.
-- Why one script: no more slots are taken than the gate has room for. Such a slot is a lease: its holder has no
-- list in which a janitor would find it, so the slot ends with its time. It is counted until it has been
-- removed, so a holder that prolongs it late still has it.
-- KEYS     1-5 those of use_gates, but the second one stands for a ledger and is not used  6 waiting list
--          7 rate  8 stop  9 leases
-- ARGV     1 "take" | "renew" | "free"  2 name of the gate  3 size to use if none is stored  4 holder
--          5 ms of the lease
-- Returns  {"held", 0} | {"busy", ms for which the rate or a stop lets nothing start, 0 for none}
--          | {"lost", 0} (it has none to prolong or to give up) | {"free", 0} (given up)
-- Repeat   prolongs the lease, and uses no second permit; "lost" after it was given up
-- Cost     O(log leases), O(starts that no rate counts any more), at a full gate O(256 * log leases)
local leases = KEYS[9]
local act, name, size, holder, hold_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

-- include must_be
-- include gate
-- include end_leases
use_gates(1)
local g = gate_at(name, 6)
g.size = size
local wrong = may_use() or may_look({ g }) or may('HSETNX', limits, '', '')
  or must_be(leases, 'zset', 'ZADD', leases, '0', '') or may('ZREM', leases, '') or may('ZSCORE', leases, '')
  or may('ZRANGEBYSCORE', leases, '0', '0')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lease, until_ms = name .. '\n' .. holder, string.format('%.0f', now_ms + hold_ms)
if redis.call('ZSCORE', leases, lease) then
  if act ~= 'free' then
    redis.call('ZADD', leases, until_ms, lease)
    return { 'held', 0 }
  end
  redis.call('ZREM', leases, lease)
  change_count(name .. '\nr', -1)
  write_counts()
  redis.call('ZADD', waiting, 'XX', string.format('%.3f', now_ms / 1000), name)
  return { 'free', 0 }
elseif act ~= 'take' then
  return { 'lost', 0 }
end
read_counts({ g }, 'r', 'a')
look(g, now_ms)
keep_size(g, time[1])
if g.room <= 0 then
  -- The poller frees the slots of holders that are gone. But there may be no worker, and so no poller.
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('%.0f', now_ms), 'LIMIT', 0, 256)
  end_leases(over, leases, waiting, time[1], function(count) change_count(count, -1) end)
  look(g, now_ms)
end
if g.room <= 0 or g.waiters > 0 then
  write_counts()
  return { 'busy', math.ceil(g.shut_ms) }
end
redis.call('ZADD', leases, until_ms, lease)
change_count(g.r, 1)
write_counts()
if g.permits then
  use_permits(g, 1, now_ms)
end
return { 'held', 0 }
