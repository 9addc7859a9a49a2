-- end_leases: frees the slots of these leases, whose holders are gone, and has the poller look at their gates.
-- lessen makes the count of this name one less.
local function end_leases(over, leases, waiting, seconds, lessen)
  for _, lease in ipairs(over) do
    local name = string.match(lease, '^[^\n]*')
    redis.call('ZREM', leases, lease)
    lessen(name .. '\nr')
    redis.call('ZADD', waiting, 'XX', seconds, name)
  end
end
