#!lua flags=allow-oom
-- gate_count: compare the counts of gates with the slots and admissions that there are, or correct the counts.
-- Why one script: both change in each start and end of a limited run, so they are compared at one instant.
-- A lease is a slot of a caller without a job.
-- A process that has registered since the caller read which ones there are may have slots, too: without its
-- ledger the counts would be too low, and too many jobs would start.
-- KEYS     1 gates (the counts)  2 admitted  3 index of gates with waiters  4 leases  5 alive  then a waiting
--          list for each gate  then the ledgers of slots of all processes
-- ARGV     1 "look" | "set"  2 slots and admissions at most  3 how many gates  then their names, and then the
--          processes' identities
-- Returns  {"counted"}, and for each gate: count of runs, slots, count of admitted, admissions, waiters,
--          whether the index has it (0|1), all as they were before | {"many"} (there are more slots and
--          admissions) | {"started"} (a process lives that is not named); nothing is changed then
-- Repeat   the same; counts that were set are right then
-- Cost     O(slots + admissions + gates + processes)
local gates, admitted, index, leases, alive, first_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], 6
local act, most, names, first = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 4
local keys = KEYS

-- include must_be
local wrong = must_be(gates, 'hash', 'HMGET', gates, '') or must_be(admitted, 'hash', 'HVALS', admitted)
  or must_be(index, 'zset', 'ZSCORE', index, '') or must_be(leases, 'zset', 'ZRANGE', leases, '0', '0')
  or must_be(alive, 'zset', 'ZRANGE', alive, '0', '0')
for at = first_key, #keys do
  wrong = wrong or must_be(keys[at], at < first_key + names and 'list' or 'hash', 'TYPE', keys[at])
end
if not wrong and act == 'set' then
  wrong = may('HSET', gates, '', '') or may('HDEL', gates, '') or may('ZADD', index, '0', '') or may('ZREM', index, '')
end
if wrong then
  return wrong
end
local named = {}
for at = first + names, #ARGV do
  named[ARGV[at]] = true
end
for _, identity in ipairs(redis.call('ZRANGE', alive, 0, #ARGV - first - names + 1)) do
  if not named[identity] then
    return { 'started' }
  end
end
local entries = redis.call('HLEN', admitted) + redis.call('ZCARD', leases)
for at = first_key + names, #keys do
  entries = entries + redis.call('HLEN', keys[at])
end
if entries > most then
  return { 'many' }
end
local slots, marks = {}, {}
local function tally(counted, texts, pattern)
  for _, text in ipairs(texts) do
    local name = string.match(text, pattern)
    if name then
      counted[name] = (counted[name] or 0) + 1
    end
  end
end
for at = first_key + names, #keys do
  tally(slots, redis.call('HVALS', keys[at]), '.*')
end
tally(slots, redis.call('ZRANGE', leases, 0, -1), '^([^\n]*)\n')
tally(marks, redis.call('HVALS', admitted), '^%d+\n([^\n]*)') -- a lapsed one has a negative time
local function set(field, count)
  if count > 0 then
    redis.call('HSET', gates, field, count)
  else
    redis.call('HDEL', gates, field)
  end
end
local answer = { 'counted' }
local now = redis.call('TIME')[1]
for at = 0, names - 1 do
  local name = ARGV[first + at]
  local counts = redis.call('HMGET', gates, name .. '\nr', name .. '\na')
  local waiters, looked = redis.call('LLEN', keys[first_key + at]), redis.call('ZSCORE', index, name)
  local found = { tonumber(counts[1]) or 0, slots[name] or 0, tonumber(counts[2]) or 0, marks[name] or 0, waiters, looked and 1 or 0 }
  for _, number in ipairs(found) do
    answer[#answer + 1] = number
  end
  if act == 'set' then
    set(name .. '\nr', slots[name] or 0)
    set(name .. '\na', marks[name] or 0)
    if waiters > 0 then
      redis.call('ZADD', index, now, name)
    else
      redis.call('ZREM', index, name)
    end
  end
end
return answer
