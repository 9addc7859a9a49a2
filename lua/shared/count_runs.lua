-- count_runs: count runs that ended, in the counter of all days and in today's, which expires. pcall: the jobs are where they belong, and a
-- counter of another type or a command that is denied must not make that look like a failure.
local function count_runs(total, today, by, day_seconds)
  if by > 0 then
    redis.pcall('INCRBY', total, by)
    if redis.pcall('INCRBY', today, by) == by then
      redis.pcall('EXPIRE', today, day_seconds)
    end
  end
end
