#!lua flags=allow-oom
-- promote_large: move one due entry that is too large for any reply to the back of its queue, as it is.
-- Why one script: see promote.
-- The entry's bytes are never sent. The worker that takes it judges its size: workers of another language may
-- have no limit. It is found as kill_large finds it.
-- KEYS     1 set (schedule or retry)  2 queue list  3 queues (the set of names)
-- ARGV     1 rank at which it was found  2 its length  3 its beginning  4 its end  5 the queue's bare name
--          6 bytes of other entries to read at most during the search
-- Returns  "promoted" | "gone" (it is not found, or not due any more)
-- Repeat   "gone"
-- Cost     O(length of the entry), and as kill_large
local set, list, queues = KEYS[1], KEYS[2], KEYS[3]
local met_at, length, head, tail, name, room = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

-- include must_be
-- include find_large
local wrong = must_be(set, 'zset', 'ZREM', set, '') or must_be(list, 'list', 'LPUSH', list, '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local entry = find_large('zset', set, met_at, length, head, tail, room)
if not entry or tonumber(redis.call('ZSCORE', set, entry)) > now then
  return 'gone'
end
redis.call('ZREM', set, entry)
redis.call('LPUSH', list, entry)
redis.pcall('SADD', queues, name) -- the job is there, even if this fails
return 'promoted'
