-- newer_mark: a score higher than those of all marks, whatever the clock does: microseconds by Redis' clock, or
-- more. So a process that has read up to a mark misses none. The empty member has the score of the newest mark
-- or other event, also after that was removed; heartbeats read it.
local function newer_mark(marks, time)
  return math.max(time[1] * 1000000 + time[2], tonumber(redis.call('ZSCORE', marks, '') or '0') + 1)
end
