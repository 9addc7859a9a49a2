#!lua flags=allow-oom
-- batch_nested: count in a batch whether a batch in it has dead members.
-- The end job of the nested batch counts as dead then.
-- Why one script: what it reads of the nested batch and what it writes are of one instant. So if the nested
-- batch changes often, the last call is right, in whatever order the calls come.
-- KEYS     1 info of the nested batch  2 its dead members  then the keys of its parent, in their order (see
--          batch)
-- ARGV     1 the parent: "BID/QUEUE"  2 jid of the nested batch's end job for success
-- Returns  "counted" | "gone" (there is no such nested batch)
-- Repeat   "counted", and nothing is written, unless the nested batch has changed
-- Cost     O(1)
local info, nested_dead, of, success = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

-- include must_be
-- include follow
-- include batch
local b = { key = 3, of = of, done = {}, failed = {}, died = {}, removed = {}, revived = {}, death = true }
local wrong = must_be(info, 'hash', 'HMGET', info, '') or must_be(nested_dead, 'set', 'SCARD', nested_dead) or may_count(b)
if wrong then
  return wrong
end
local held = redis.call('HMGET', info, 'created', 'success_at')
if not held[1] then
  return 'gone'
end
if not held[2] then -- else the end job runs, and its own end counts
  b[redis.call('SCARD', nested_dead) > 0 and 'died' or 'revived'] = { success }
end
local time = redis.call('TIME')
count(b, time[1] * 1000 + math.floor(time[2] / 1000))
return 'counted'
