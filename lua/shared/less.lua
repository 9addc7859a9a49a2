-- less: a count of a gate is lower by this number. gates is the key of all counts.
local function less(gates, field, by)
  if redis.call('HINCRBY', gates, field, -by) <= 0 then
    redis.call('HDEL', gates, field)
  end
end

-- may_less: nil if nothing can stop less half-way; else the error.
local function may_less(gates)
  return must_be(gates, 'hash', 'HINCRBY', gates, '', '0') or may('HDEL', gates, '')
end

