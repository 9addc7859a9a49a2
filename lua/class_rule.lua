#!lua flags=allow-oom
-- class_rule: store or remove an operator's rule for the jobs of a class.
-- Why one script: the rule, the size of its gate and the event that makes processes read the rules change
-- together. Otherwise a process could miss a rule, or jobs could wait at a gate that no rule opens again.
-- The gate of a class has a size as long as the class has a rule. Without a size its waiters go back to their
-- queues, and with that of a class whose jobs are dropped, too. A start never stores a size for it: a process
-- that has not read yet that the rule is gone would close the gate again.
-- The event is one of the marks of cancelled jobs, which processes read after a heartbeat: see mark.
-- KEYS     1 rules by class  2 limits  3 index of gates with waiters  4 marks
-- ARGV     1 the class  2 its rule: "limit N" | "drop" | empty to remove it  3 the gate's name  4 the gate's
--          size ("concurrency kind n ms", or "drop" in place of the first), empty for none  5 rules at most
--          6 microseconds to keep a mark
-- Returns  "stored" | "same" | "removed" | "unknown" (there was none to remove); or the error FULL, and nothing
--          has changed
-- Repeat   "same" or "unknown"
-- Cost     O(log marks + log gates with waiters)
local rules, limits, waiting, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local class, rule, gate, size = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most, keep = tonumber(ARGV[5]), tonumber(ARGV[6])

-- include must_be
-- include newer_mark
local wrong = must_be(rules, 'hash', 'HSET', rules, '', '') or may('HDEL', rules, '')
  or must_be(limits, 'hash', 'HSET', limits, '', '') or may('HDEL', limits, '')
  or must_be(waiting, 'zset', 'ZADD', waiting, '0', '')
  or must_be(marks, 'zset', 'ZADD', marks, '0', '') or may('EXPIRE', marks, '1')
if wrong then
  return wrong
end
local had = redis.call('HGET', rules, class)
if rule == (had or '') then
  return had and 'same' or 'unknown'
elseif not had and redis.call('HLEN', rules) >= most then
  return redis.error_reply('FULL ' .. most .. ' classes have rules, and no more can')
end
local time = redis.call('TIME')
if rule == '' then
  redis.call('HDEL', rules, class)
else
  redis.call('HSET', rules, class, rule)
end
local name = string.match(gate, '^[^:]*')
if size == '' then
  redis.call('HDEL', limits, name)
else
  redis.call('HSET', limits, name, size .. ' operator 0')
end
redis.call('ZADD', waiting, 'XX', time[1], gate)
redis.call('ZADD', marks, string.format('%.0f', newer_mark(marks, time)), '')
redis.call('EXPIRE', marks, math.ceil(keep / 1000000))
return rule == '' and 'removed' or 'stored'
