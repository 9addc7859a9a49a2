-- trim_dead: remove the oldest jobs of the dead set, to which the script has added: those beyond most, and
-- those older than these seconds. A dead job holds nothing, so there is nothing to release. A bounded number
-- (MaxItems): a set that is far too long must not be trimmed in one call. pcall: the jobs have moved, and a
-- denied command must not make that look like a failure.
local function trim_dead(dead, time, most, seconds)
  local expired = tonumber(redis.pcall('ZCOUNT', dead, '-inf', time[1] + time[2] / 1000000 - seconds)) or 0
  -- most jobs may stay. (Ruby keeps one less when it adds a dead job.)
  local over = math.max(expired, (tonumber(redis.pcall('ZCARD', dead)) or 0) - most)
  if over > 0 then
    redis.pcall('ZREMRANGEBYRANK', dead, 0, math.min(over, 256) - 1)
  end
end
