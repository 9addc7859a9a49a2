#!lua flags=allow-oom
-- recover: declare a process dead and bring its jobs back to the heads of their queues; suspects to their own lists.
-- Why one script: a process that comes back to life before this has lost nothing, and after it can do no harm; and a
-- janitor killed here leaves every job in one place. Element by element: two janitors at once do each job once.
-- KEYS     1 alive  2 tombstones  3 record  4 dead  5 processes  6 process hash  7 work  8 workers
--          9 alone list  then triples, all that the process has: working list, queue list, suspects list
-- ARGV     1 identity  then groups: triple, from "working" | "alone", to "queue" | "suspects" | "dead", how many jobs, and
--          for each its bytes and its new bytes
-- Returns  {"alive" | "unknown" (nothing was written)} | {"recovered", jobs left in its lists, jobs moved}
-- Again    moves what is left; a job that is not there any more is passed over
-- Cost     O(jobs * length of the working list + queues)
local alive, tombstones, record, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processes, hash, work, workers = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local identity, alone, triples = ARGV[1], KEYS[9], {}
for first = 10, #KEYS, 3 do
  triples[#triples + 1] = { working = KEYS[first], queue = KEYS[first + 1], suspects = KEYS[first + 2] }
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local died = redis.call('ZSCORE', tombstones, identity)
if not died then
  local ttl_ms = tonumber(redis.call('HGET', record, 'ttl_ms'))
  if not ttl_ms then
    return { 'unknown' }
  end
  local expiry = tonumber(redis.call('ZSCORE', alive, identity) or 0)
  if expiry > now_ms and expiry <= now_ms + ttl_ms then
    return { 'alive' }
  end
end

-- include must_be
local groups, at = {}, 2
while at <= #ARGV do
  local triple, to, count = triples[tonumber(ARGV[at])], ARGV[at + 2], tonumber(ARGV[at + 3])
  local group = { hand = ARGV[at + 1] == 'alone' and alone or triple.working, home = triple[to], count = count, first = at + 4 }
  local wrong = must_be(group.hand, 'list', 'LREM', group.hand, '1', '')
  if not wrong and to == 'dead' then
    wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
  elseif not wrong then
    wrong = must_be(group.home, 'list', 'RPUSH', group.home, '')
  end
  if wrong then
    return wrong
  end
  groups[#groups + 1] = group
  at = group.first + 2 * count
end

if not died then
  redis.call('ZADD', tombstones, now_ms, identity)
  -- Its expiry may lie ahead if the clock was set back: nothing may take under this name again.
  redis.call('ZADD', alive, 0, identity)
end
local moved = 0
for _, group in ipairs(groups) do
  for index = 0, group.count - 1 do
    local old, new = ARGV[group.first + 2 * index], ARGV[group.first + 2 * index + 1]
    if redis.call('LREM', group.hand, 1, old) == 1 then
      moved = moved + 1
      if group.home then
        redis.call('RPUSH', group.home, new)
      else
        redis.call('ZADD', dead, time[1] + (time[2] + moved) / 1000000, new)
      end
    end
  end
end

local left = redis.call('EXISTS', alone)
for _, triple in ipairs(triples) do
  -- pcall: a key that is no list holds no job, and must not hold up those that do.
  local length = redis.pcall('LLEN', triple.working)
  left = left + (type(length) == 'number' and length or 0)
end
if left == 0 then
  -- From here on only the sweep of tombstones looks at its lists, and what it finds there was in nobody's hand.
  redis.call('HSET', record, 'emptied', 1)
  redis.call('ZREM', alive, identity)
  redis.call('SREM', processes, identity)
  redis.call('DEL', hash, work, workers)
end
return { 'recovered', left, moved }
