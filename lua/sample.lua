#!lua
-- sample: add the sizes of the queues at this moment to the samples of the last day.
-- Why one script: a process that is killed between a sample and its EXPIRE would leave a key for ever, and a
-- process that has just become the poller must not add a second sample of the same minute.
-- No allow-oom: figures are for people, and must not fill a full Redis further.
-- KEYS     1 samples
-- ARGV     1 sample  2 least seconds between two samples  3 how many samples to keep  4 seconds to keep them
-- Returns  "added" | "early" (the last sample is younger than that: nothing is written)
-- Repeat   answers "early"
-- Cost     O(log samples); one sample is removed for the one that is added
local samples = KEYS[1]
local sample, least_seconds, most, keep_seconds = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

-- include must_be
local wrong = must_be(samples, 'zset', 'ZADD', samples, '0', '') or may('EXPIRE', samples, keep_seconds)
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now = string.format('%d.%06d', time[1], time[2])
-- A sample from the future was written before the clock was set back.
local last = redis.call('ZRANGE', samples, -1, -1, 'WITHSCORES')[2]
local age_seconds = last and now - last or least_seconds
if age_seconds >= 0 and age_seconds < least_seconds then
  return 'early'
end
redis.call('ZADD', samples, now, now .. ' ' .. sample) -- with its time, because equal members would be one
redis.call('EXPIRE', samples, keep_seconds)
redis.pcall('ZREMRANGEBYRANK', samples, 0, -1 - most)
return 'added'
