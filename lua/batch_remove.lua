#!lua flags=allow-oom
-- batch_remove: take members out of a batch whose jobs are nowhere.
-- Why one script: the callbacks of a batch that waits for nothing else are stored in the step that decides
-- this.
-- KEYS     1 info  and the other keys of a batch, in their order (see batch)
-- ARGV     1 the batch: "BID/QUEUE"  then jids
-- Returns  how many of them were pending
-- Repeat   0, and nothing is written
-- Cost     O(jids)
local pending, of, first_jid = KEYS[2], ARGV[1], 2

-- include must_be
-- include follow
-- include batch
local b = { key = 1, of = of, done = {}, failed = {}, died = {}, removed = { unpack(ARGV, first_jid) }, revived = {} }
local wrong = may_count(b)
if wrong then
  return wrong
end
local time, before = redis.call('TIME'), redis.call('SCARD', pending)
count(b, time[1] * 1000 + math.floor(time[2] / 1000))
return before - redis.call('SCARD', pending)
