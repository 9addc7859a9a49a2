#!lua
-- tick: store the job of a periodic job's tick and record the tick; or change only the plan.
-- Why one script: a tick that is recorded without its job would be lost, and one whose job is stored without a
-- record would come twice. The digest and the last tick are compared here, so if several processes fire the
-- same tick, one of them stores it, whatever their clocks, time zones and versions.
-- Never early: the tick's due time is compared with Redis' clock here.
-- A tick counts also if its job is refused, because a job of an earlier tick holds the lock. A tick that waits
-- for that job does not count yet: it stays due, and the poller asks again after a twentieth of the time for
-- which the job has held the lock, because one that has run for an hour will rarely end in the next second.
-- No allow-oom: a full Redis refuses the tick's job; the tick stays due.
-- KEYS     1 plan (by the second of the next tick; +inf is paused)  2 definitions  3 last ticks
--          and with a job: 4 history of the job's ticks  5 queues (the set of names)  6 queue list
--          7 index of locks  8 counter of refusals  9 lock, only of a unique job
-- ARGV     1 name  2 digest of its definition  3 "running" (neither paused nor ticked since) | "paused" | "any"
--          4 last tick that is expected, for running  5 the new last tick, "now" for this instant, "" for none
--          6 second of the next tick, "now", "+inf" to pause, "" for no change
--          and with a job: 7 the second at which it is due  8 its nominal time, for the history
--          9 how many ticks to remember  10 the queue's bare name  11 the job  12 its jid
--          and of a unique job: 13 digest  14 owner  15 ms to hold the lock  16 whether the tick waits for a
--          job that took the lock before the tick was due, and 17 for one that took it later (0|1)
-- Returns  {"enqueued", ""} | {"refused" | "waits", the jid that holds the lock} | {"planned", ""} (without a
--          job) | {"early", ""} | {"stale", ""} (another definition, plan or tick is in force: nothing is
--          written)
-- Repeat   "stale", if it set another last tick
-- Cost     O(log definitions of all), O(log locks of all)
local plan, definitions, lasts, runs, queues, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local index, refusals, lock = KEYS[7], KEYS[8], KEYS[9]
local name, digest, state, expected, last, score = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local due, nominal, keep, queue, job = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[11]
local jid, lock_digest, owner, hold_ms = ARGV[12], ARGV[13], ARGV[14], tonumber(ARGV[15])
local waits_before, waits_after = ARGV[16] == '1', ARGV[17] == '1'

-- include must_be
local wrong = must_be(plan, 'zset', 'ZADD', plan, '0', '') or must_be(definitions, 'hash', 'HGET', definitions, '')
  or must_be(lasts, 'hash', 'HSET', lasts, '', '')
if not wrong and job then
  wrong = must_be(runs, 'list', 'LPUSH', runs, '') or must_be(list, 'list', 'LPUSH', list, '')
    or lock and may('SET', lock, '')
end
-- MGET returns nothing for a key of another type, which is then replaced.
local held = not wrong and lock and redis.pcall('MGET', lock)
wrong = wrong or held and held.err and held
if wrong then
  return wrong
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
local since = string.format('%.0f', now_ms)
local planned = redis.call('ZSCORE', plan, name)
local stored = redis.call('HGET', definitions, name)
if not planned or not stored or string.match(stored, '^%S+') ~= digest or state == 'paused' and planned ~= 'inf' then
  return { 'stale', '' }
end
if state == 'running' and (planned == 'inf' or (redis.call('HGET', lasts, name) or '') ~= expected) then
  return { 'stale', '' }
end
if due and now < due then
  return { 'early', '' }
end

local word, holder = 'planned', ''
local value = held and held[1]
if value then
  word, holder = 'refused', string.match(value, '^.([^\n]+)') or '?'
  local taken_ms = tonumber(string.match(value, '^[^\n]*\n[^\n]*\n(%d+)') or '0')
  local before = taken_ms < due * 1000
  if before and waits_before or not before and waits_after then
    local rest = math.min(math.max((now - taken_ms / 1000) / 20, 0.02), 2)
    redis.call('ZADD', plan, string.format('%.3f', now + rest), name)
    return { 'waits', holder }
  end
  if string.sub(value, 1, 1) == 's' then
    redis.call('SET', lock, 'd' .. string.sub(value, 2), 'KEEPTTL') -- see unlock
  end
elseif job then
  word = 'enqueued'
  if lock then
    local until_ms = string.format('%.0f', now_ms + hold_ms)
    redis.call('SET', lock, '-' .. owner .. since, 'PXAT', until_ms)
    redis.pcall('ZADD', index, until_ms, lock_digest)
  end
  redis.call('LPUSH', list, job)
  redis.pcall('SADD', queues, queue)
end
if last ~= '' then
  redis.call('HSET', lasts, name, last == 'now' and 'since ' .. since or last)
end
if score ~= '' then
  redis.call('ZADD', plan, score == 'now' and string.format('%.3f', now_ms / 1000) or score, name)
end
-- pcall: the history and the counter are for people, and the job is stored.
if job then
  local length = redis.pcall('LPUSH', runs, table.concat({ nominal, since, word, value and holder or jid }, ' '))
  if type(length) == 'number' and length > keep then
    redis.pcall('RPOP', runs)
  end
end
if value then
  redis.pcall('INCRBY', refusals, 1)
end
return { word, holder }
