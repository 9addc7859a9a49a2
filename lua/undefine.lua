#!lua flags=allow-oom
-- undefine: remove the definition of a periodic job, with its ticks and their history.
-- Why one script: a definition in the code of a live process is not removed, because the process' next
-- registration would store it again; and a definition that is registered at the same moment must not lose its
-- plan.
-- KEYS     1 plan  2 definitions  3 last ticks  4 seen  5 alive  6 history of the job's ticks
-- ARGV     1 name  2 the uptime at which it was last seen at the latest, "" for any
-- Returns  "removed" | "unknown" | "registered" (a live process has it in its code, or it was seen since)
-- Repeat   "unknown"
-- Cost     O(log definitions of all)
local plan, definitions, lasts, seen, alive, runs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local name, latest = ARGV[1], ARGV[2]

-- include must_be
local wrong = must_be(plan, 'zset', 'ZREM', plan, '') or must_be(definitions, 'hash', 'HDEL', definitions, '')
  or must_be(lasts, 'hash', 'HDEL', lasts, '') or must_be(seen, 'zset', 'ZREM', seen, '')
  or must_be(alive, 'zset', 'ZSCORE', alive, '') or may('DEL', runs)
if wrong then
  return wrong
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local old = redis.call('HGET', definitions, name)
local identity = old and string.match(old, '^%S+ %S+ %d+ ([^\n]*)\n') or ''
local last_seen = redis.call('ZSCORE', seen, name)
if latest ~= '' and not (last_seen and tonumber(last_seen) <= tonumber(latest)) then
  return 'registered'
elseif identity ~= '' and tonumber(redis.call('ZSCORE', alive, identity) or '0') > now_ms then
  return 'registered'
end
redis.call('ZREM', plan, name)
redis.call('HDEL', definitions, name)
redis.call('HDEL', lasts, name)
redis.call('ZREM', seen, name)
redis.call('DEL', runs)
return old and 'removed' or 'unknown'
