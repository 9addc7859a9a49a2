#!lua flags=allow-oom
-- up: read since when there has been a live process at each instant.
-- Why one script: whether a process is alive now, and the time of the last gap, are of one instant. After a
-- clock was set forward, no process is alive until the next heartbeat.
-- KEYS     1 alive  2 up (see note_up)
-- ARGV     none
-- Returns  ms; this instant if no process is alive now, or if Redis does not know; 0 if a process has been
--          alive since before the clock was set back
-- Repeat   the same
-- Cost     O(log processes)
local alive, up = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = redis.call('ZRANGE', alive, 0, 0, 'REV', 'WITHSCORES')[2]
if not latest or tonumber(latest) <= now_ms then
  return now_ms
end
local since = redis.pcall('GET', up)
local since_ms = type(since) == 'string' and tonumber(since) or now_ms
return since_ms > now_ms and 0 or since_ms
