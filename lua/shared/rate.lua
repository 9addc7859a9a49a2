-- The rate of a gate: g.limit has its kind, n and ms, and g.rate is the key of its state. A window
-- allows n starts in any ms: the state is the list of the last n starts, newest on the left. A leaky rate
-- allows n at once, and then one in each ms / n: the state is the time at which all permits are there again.
-- Times are whole ms, so a start counts one ms longer than it must: two of them may be a part of a ms apart.
-- A state of the other kind, from before the size was changed, is none. g.state is its type.
local function is_rate(g)
  return g.state == (g.limit.kind == 'window' and 'list' or 'string')
end

-- permits: how many may start now, and in how many ms the next one may.
-- No start is later than now, unless the clock was set back: then those count as now, or a window would allow
-- twice as many, or nothing for a long time.
local function permits(g, now_ms)
  if not is_rate(g) then
    return g.limit.n, 0
  elseif g.limit.kind == 'window' then
    local ahead = {}
    while tonumber(redis.call('LINDEX', g.rate, 0) or now_ms) > now_ms do
      ahead[#ahead + 1] = string.format('%.0f', now_ms)
      redis.call('LPOP', g.rate)
    end
    if #ahead > 0 then
      redis.call('LPUSH', g.rate, unpack(ahead))
      redis.call('PEXPIRE', g.rate, g.limit.ms + 1)
    end
    local oldest = tonumber(redis.call('LINDEX', g.rate, -1) or nil)
    while oldest and oldest < now_ms - g.limit.ms do
      redis.call('RPOP', g.rate)
      oldest = tonumber(redis.call('LINDEX', g.rate, -1) or nil)
    end
    local left = g.limit.n - redis.call('LLEN', g.rate)
    return left, left > 0 and 0 or (oldest or now_ms) + g.limit.ms + 1 - now_ms
  end
  local full_ms = math.min(tonumber(redis.call('GET', g.rate)) or 0, now_ms + g.limit.ms)
  -- A thousandth, because the stored time is rounded.
  local left = math.min(g.limit.n, math.floor((now_ms + g.limit.ms - full_ms) * g.limit.n / g.limit.ms + 0.001))
  return left, left > 0 and 0 or math.ceil(full_ms + g.limit.ms / g.limit.n - g.limit.ms - now_ms)
end

-- use_permits: uses as many permits.
local function use_permits(g, used, now_ms)
  if g.state ~= 'none' and not is_rate(g) then
    redis.call('DEL', g.rate)
  end
  if g.limit.kind == 'window' then
    local starts = {}
    for at = 1, used do
      starts[at] = string.format('%.0f', now_ms)
    end
    redis.call('LPUSH', g.rate, unpack(starts))
    redis.call('PEXPIRE', g.rate, g.limit.ms + 1)
  else
    local full_ms = math.min(tonumber(redis.call('GET', g.rate) or nil) or 0, now_ms + g.limit.ms)
    full_ms = math.max(full_ms, now_ms) + used * g.limit.ms / g.limit.n
    -- At least 1: a permit of less than a thousandth of a ms may vanish beside the time.
    redis.call('SET', g.rate, string.format('%.3f', full_ms), 'PX', math.max(1, math.ceil(full_ms - now_ms)))
  end
end

-- may_rate: nil if this user may use the states of rates; else the error.
local function may_rate(key)
  return may('TYPE', key) or may('LPUSH', key, '') or may('LPOP', key) or may('RPOP', key) or may('LINDEX', key, '0')
    or may('LLEN', key) or may('PEXPIRE', key, '0') or may('DEL', key) or may('GET', key) or may('SET', key, '')
end
