#!lua flags=allow-oom
-- recover: declare a process dead; move its jobs to the heads of their queues, to quarantine or to dead.
-- Why one script: a process that renews its session before this call has lost nothing, and after it can
-- change nothing; a janitor that is killed here leaves every job in one place. It moves element by element,
-- so two janitors at the same time move each job once. A job that goes to the dead set counts as a failed
-- run: no job dies without a count.
-- KEYS     1 alive  2 tombstones  3 record  4 dead  5 processes  6 process hash  7 work  8 workers
--          9 list of the quarantined job that it ran  10 processed  11 failed  12 processed today
--          13 failed today  then triples, all that the process has: working list, queue list, quarantine list
--          then, by their positions, the keys of what belongs to jobs
-- ARGV     1 identity  2 how many triples  3 seconds to keep a day's counters  4 dead jobs at most
--          5 dead seconds at most  6 evidence that it died before its session lapsed, or empty: its expiry in
--          ms, which no heartbeat has moved since  7 the ms of the look that found its subscription gone for
--          the second time  8 the channel of its subscription  9 the queues of the triples, as the record has
--          them  then groups: triple, from "working" | "quarantined", to "queue" | "quarantine" | "dead", and
--          the arguments of read_owned, of each job its bytes and its new bytes
-- Returns  {"alive" | "unknown" (nothing was written)} | {"recovered", jobs left in its lists, jobs moved}
-- Repeat   moves what is left; a job that is not there any more is skipped
-- Cost     O(jobs * length of the working list + queues), and the dead jobs that are trimmed, 256 at most
local alive, tombstones, record, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processes, hash, work, workers = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local running = KEYS[9]
local processed, failed, processed_today, failed_today = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local identity, count_triples, day_seconds, triples = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), {}
local dead_most, dead_seconds = tonumber(ARGV[4]), tonumber(ARGV[5])
local last_expiry, looked_ms, channel, queues = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9]
local max_age_ms = 500 -- of the look: half of the time between two looks
for first = 14, 13 + 3 * count_triples, 3 do
  triples[#triples + 1] = { working = KEYS[first], queue = KEYS[first + 1], quarantine = KEYS[first + 2] }
end

-- include subscribers
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local died = redis.call('ZSCORE', tombstones, identity)
if not died then
  local ttl_ms = tonumber(redis.call('HGET', record, 'ttl_ms'))
  if not ttl_ms then
    return { 'unknown' }
  end
  local expiry = tonumber(redis.call('ZSCORE', alive, identity) or 0)
  local dead_now = expiry <= now_ms or expiry > now_ms + 2 * ttl_ms -- as in heartbeat
  if last_expiry then
    local age_ms = now_ms - looked_ms
    dead_now = expiry == last_expiry and expiry > now_ms and age_ms >= 0 and age_ms <= max_age_ms
      and subscribers(channel) == 0
  end
  if not dead_now then
    return { 'alive' }
  end
end

-- include must_be
-- include owned
-- include count_runs
-- include trim_dead
-- include orphans
local groups, wrong = read_orphans(triples, running, dead, 10)
if wrong then
  return wrong
end

if not died then
  redis.call('ZADD', tombstones, now_ms, identity)
  -- Its expiry may be in the future if the clock was set back, but no take with this identity may succeed
  -- again.
  redis.call('ZADD', alive, 0, identity)
end
local moved, killed = move_orphans(groups, dead, time, now_ms)
count_runs(processed, processed_today, killed, day_seconds)
count_runs(failed, failed_today, killed, day_seconds)
if killed > 0 then
  trim_dead(dead, time, dead_most, dead_seconds)
end

local left = redis.call('EXISTS', running)
for _, triple in ipairs(triples) do
  -- pcall: a key that is not a list holds no job, and must not block the others.
  local length = redis.pcall('LLEN', triple.working)
  left = left + (type(length) == 'number' and length or 0)
end
-- The record may name more queues than when the caller read it. Then the process still counts as lapsed, so the
-- record is read again.
if left == 0 and (redis.call('HGET', record, 'queues') or queues) == queues then
  -- From now on only the sweep of tombstones reads its lists, and what it finds there was never running.
  redis.call('HSET', record, 'emptied', 1)
  redis.call('ZREM', alive, identity)
  redis.call('SREM', processes, identity)
  redis.call('DEL', hash, work, workers)
end
return { 'recovered', left, moved }
