#!lua flags=allow-oom
-- batch_seal: record that the program that made a batch pushes no more members, unless members push more.
-- Why one script: the callbacks of a batch whose members have all ended are stored in the step that decides
-- this.
-- KEYS     1 info  and the other keys of a batch, in their order (see batch)
-- ARGV     1 the batch: "BID/QUEUE"
-- Returns  "sealed" (now, or before) | "unknown" (there is no such batch)
-- Repeat   "sealed", and nothing is written
-- Cost     O(1)
local info, pending, of = KEYS[1], KEYS[2], ARGV[1]

-- include must_be
-- include follow
-- include batch
local b = { key = 1, of = of, done = { 'not sealed' }, failed = {}, died = {}, removed = {}, revived = {} }
local wrong = may_count(b)
if wrong then
  return wrong
end
if redis.call('EXISTS', info) == 0 then
  return 'unknown'
end
if redis.call('SISMEMBER', pending, 'not sealed') == 1 then
  local time = redis.call('TIME')
  count(b, time[1] * 1000 + math.floor(time[2] / 1000))
end
return 'sealed'
