#!lua
-- batch_new: make a batch, or open it again.
-- Why one script: two programs that make a batch with one id make one batch. A nested batch enters its parent
-- in the same step, so that the parent cannot be over while its child is not. The end jobs of a nested batch
-- are its callbacks. The second one counts as failed in the parent from the beginning: so the parent is
-- complete when the child is complete and has said so, and over when the child is over. The set of nested ones
-- tells it from members that have run. No allow-oom: a full Redis must refuse new work, so that what it already
-- holds can be drained.
-- KEYS     1 info  2 pending  3 batches  then, of a nested batch: its parent's info, pending, failed and nested
-- ARGV     1 BID  2 seconds until it expires  3 jid of the end job for complete, "" without a parent
--          4 jid of that for success  5 BID of the parent, "" without one  then the fields of info: name, value
-- Returns  "new" | "open" (it exists, and is not sealed) | "over" (it exists, and is sealed) | "orphan" (its
--          parent is over, or does not exist; nothing was written)
-- Repeat   "open", and nothing is written
-- Cost     O(fields)
local info, pending, batches = KEYS[1], KEYS[2], KEYS[3]
local parent, parent_pending, parent_failed, parent_nested = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local bid, expires, complete, success, parent_bid, first_field = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], 6

-- include must_be
local wrong = must_be(info, 'hash', 'HSET', info, '', '') or must_be(pending, 'set', 'SADD', pending, '')
  or must_be(batches, 'zset', 'ZADD', batches, '0', '')
if parent then
  wrong = wrong or must_be(parent, 'hash', 'HINCRBY', parent, '', '0') or may('HMGET', parent, '')
    or must_be(parent_pending, 'set', 'SADD', parent_pending, '') or must_be(parent_failed, 'set', 'SADD', parent_failed, '')
    or must_be(parent_nested, 'set', 'SADD', parent_nested, '')
end
if wrong then
  return wrong
end
if redis.call('EXISTS', info) == 1 then
  return redis.call('SISMEMBER', pending, 'not sealed') == 1 and 'open' or 'over'
end
if parent then
  local held = redis.call('HMGET', parent, 'created', 'success_at')
  if not held[1] or held[2] then
    return 'orphan'
  end
end

local time = redis.call('TIME')
redis.call('HSET', info, 'created', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
  'total', '0', unpack(ARGV, first_field))
redis.call('SADD', pending, 'not sealed')
redis.call('ZADD', batches, time[1] + expires, bid)
if parent then
  redis.call('SADD', parent_pending, complete, success)
  redis.call('SADD', parent_failed, success)
  redis.call('SADD', parent_nested, success)
  redis.call('HINCRBY', parent, 'total', 2)
  redis.call('ZADD', batches, 'GT', time[1] + expires, parent_bid)
end
return 'new'
