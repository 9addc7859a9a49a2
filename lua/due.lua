#!lua flags=allow-oom
-- due: read the due jobs of a sorted set, and when the next one is due.
-- Why a script: one clock, Redis', decides what is due; and an entry that is too large for any page is named
-- instead of returned.
-- KEYS     1 set (schedule or retry)
-- ARGV     1 jobs at most  2 bytes in all at most  3 bytes of one job at most  4 how many of the first to skip
-- Returns  {microseconds until the next one that is not due yet, a million seconds at most, -1 for none; {the
--          description by large of each due job that is too large, its rank first}; the due jobs, earliest
--          first ...}
-- Repeat   the same
-- Cost     O(log set + skipped + jobs)
local set = KEYS[1]
local most, room, largest, offset = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include large
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local too_large = {}
local answer = { -1, too_large }
-- Few at first, because their sizes are unknown until they are read. Small ones are then read by the dozen.
local look = 1
while #answer - 2 < most and room > 0 do
  local jobs = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', offset, math.min(look, most - #answer + 2))
  if #jobs == 0 then
    break
  end
  look = math.min(2 * look, 64)
  for _, job in ipairs(jobs) do
    if room <= 0 then
      break
    end
    room = room - #job
    if #job > 16384 then
      look = 1
    end
    if #job <= largest then
      answer[#answer + 1] = job
    else
      too_large[#too_large + 1] = large(offset, job)
    end
    offset = offset + 1
  end
end
local next_one = redis.call('ZRANGEBYSCORE', set, '(' .. string.format('%.17g', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if next_one[2] then
  -- Bounded, because a score can be anything, such as milliseconds or infinity. The next call comes long
  -- before.
  answer[1] = math.min(math.ceil(((tonumber(next_one[2]) or math.huge) - now) * 1000000), 1e12)
end
return answer
