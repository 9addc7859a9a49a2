#!lua flags=allow-oom
-- lapse: give up the places of admitted jobs that have not started for long.
-- Why one script: an admission that is used or made anew in between must not lapse, and the count of its gate
-- changes with it.
-- Such a job was deleted, or runs in a process that does not know the limit, or its queue is paused, and it
-- would keep the gate's waiters of other queues from starting. If it starts all the same, it does
-- so if there is room, and else waits first. So a lapsed admission is kept for a while.
-- An admission of a gate without a size, which lets all jobs start, lapses at once: processes start its jobs
-- without asking once the rule of a class is gone, and the next rule must not find them counted.
-- KEYS     1 gates  2 admitted  3 index of gates with waiters  4 limits  5 paused  then queue lists
-- ARGV     1 ms after which one lapses whose queue is empty or paused  2 ms after which any lapses
--          3 ms to keep a lapsed one
--          then for each admission: SHA-1 of the job's bytes, the text as it was read, position of the queue's
--          key
-- Returns  how many lapsed
-- Repeat   0
-- Cost     O(admissions)
local gates, admitted, waiting, limits, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local unqueued_ms, queued_ms, keep_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lists, first, step = KEYS, 4, 3

-- include must_be
-- include less
local wrong = may_less(gates)
  or must_be(admitted, 'hash', 'HSET', admitted, '', '') or may('HGET', admitted, '') or may('HDEL', admitted, '')
  or must_be(waiting, 'zset', 'ZADD', waiting, '0', '') or must_be(limits, 'hash', 'HEXISTS', limits, '')
  or must_be(paused, 'set', 'SISMEMBER', paused, '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lapsed = 0
for at = first, #ARGV, step do
  local hash, text, list = ARGV[at], ARGV[at + 1], lists[tonumber(ARGV[at + 2])]
  local sign, since, name, queue = string.match(text, '^(%-?)(%d+)\n([^\n]*)\n([^\n]*)$')
  if since and redis.call('HGET', admitted, hash) == text then
    local age_ms = now_ms - since
    if age_ms < 0 then -- from before the clock was set back
      redis.call('HSET', admitted, hash, string.format('%s%.0f\n%s\n%s', sign, now_ms, name, queue))
    elseif sign == '-' and age_ms > keep_ms then
      redis.call('HDEL', admitted, hash)
    elseif sign == '' and (age_ms > queued_ms
      or age_ms > unqueued_ms and (redis.call('SISMEMBER', paused, queue) == 1 or redis.call('EXISTS', list) == 0)
      or redis.call('HEXISTS', limits, string.match(name, '^[^:]*')) == 0) then
      redis.call('HSET', admitted, hash, string.format('-%.0f\n%s\n%s', now_ms, name, queue))
      less(gates, name .. '\na', 1)
      redis.call('ZADD', waiting, 'XX', string.format('%.3f', now_ms / 1000), name)
      lapsed = lapsed + 1
    end
  end
end
return lapsed
