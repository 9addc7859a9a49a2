#!lua flags=allow-oom
-- batch_drop: delete a batch. Its jobs stay, and count nowhere.
-- Why one script: a batch that has expired may have been prolonged since that was read; and its parent must not
-- wait for the end of a batch that is gone.
-- KEYS     1 info  2 pending  3 failed  4 dead  5 nested  6 batches  then, of a nested batch, the keys of its
--          parent, in their order (see batch)
-- ARGV     1 BID  2 "any" | "expired" (or it stays)  then, of a nested batch, the parent: "BID/QUEUE", and the
--          jids of the end jobs for complete and success
-- Returns  "dropped" | "kept" (it has not expired) | "gone" (there is none)
-- Repeat   "gone"
-- Cost     O(1): Redis frees the members in the background
local info, pending, failed, dead, nested, batches, parent = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local bid, which, of, complete, success = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include must_be
-- include follow
-- include batch
local b = { key = 7, of = of, done = {}, failed = {}, died = {}, removed = {}, revived = {} }
local wrong = must_be(info, 'hash', 'UNLINK', info, pending, failed, dead, nested) or must_be(batches, 'zset', 'ZREM', batches, '')
  or parent and may_count(b)
if wrong then
  return wrong
end
local time = redis.call('TIME')
local expiry = tonumber(redis.call('ZSCORE', batches, bid) or nil)
if which == 'expired' and expiry and expiry > tonumber(time[1]) then
  return 'kept'
end
local called = redis.call('HMGET', info, 'complete_at', 'success_at')
redis.call('ZREM', batches, bid)
if redis.call('UNLINK', info, pending, failed, dead, nested) == 0 then
  return 'gone'
end
if parent then
  -- An end job that was stored ends by itself.
  b.removed[1] = not called[1] and complete or nil
  b.removed[#b.removed + 1] = not called[2] and success or nil
  count(b, time[1] * 1000 + math.floor(time[2] / 1000))
end
return 'dropped'
