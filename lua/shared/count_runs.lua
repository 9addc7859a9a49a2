-- count_runs: count ended runs in the total counter and in today's, which expires. pcall: the jobs have
-- moved, and a counter of another type or a denied command must not make that look like a failure.
local function count_runs(total, today, by, day_seconds)
  if by > 0 then
    redis.pcall('INCRBY', total, by)
    if redis.pcall('INCRBY', today, by) == by then
      redis.pcall('EXPIRE', today, day_seconds)
    end
  end
end
