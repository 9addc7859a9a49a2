#!lua flags=allow-oom
-- free_leases: free the slots whose leases have expired.
-- Why one script: a holder that prolongs its lease keeps its slot, or loses it, and the gate's count says
-- which.
-- KEYS     1 leases  2 gates  3 index of gates with waiters
-- ARGV     1 leases at most  2 ms after which a lease that ends in the future ends now: the clock was set back
-- Returns  how many were freed
-- Repeat   frees what is left
-- Cost     O(leases freed * log leases)
local leases, gates, waiting = KEYS[1], KEYS[2], KEYS[3]
local most, longest_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

-- include must_be
-- include less
-- include end_leases
local wrong = must_be(leases, 'zset', 'ZREM', leases, '') or may('ZRANGEBYSCORE', leases, '0', '0')
  or may_less(gates)
  or must_be(waiting, 'zset', 'ZADD', waiting, '0', '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local over = redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('%.0f', now_ms), 'LIMIT', 0, most)
local later = string.format('(%.0f', now_ms + longest_ms)
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', leases, later, '+inf', 'LIMIT', 0, most - #over)) do
  over[#over + 1] = lease
end
end_leases(over, leases, waiting, time[1], function(count) less(gates, count, 1) end)
return #over
