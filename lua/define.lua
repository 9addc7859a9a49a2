#!lua flags=allow-oom
-- define: store the definitions of periodic jobs that a process has in its code, or that an operator adds.
-- Why one script: of several versions of a program that run at the same time, the one that started last
-- decides, as long as it lives; and a new schedule counts from the instant at which it is stored, so that it
-- fires nothing that is past. It replaces no schedule that has a due tick, because that tick would be lost: the
-- caller fires the tick first. An operator's definition stays until an operator removes it: code does not
-- replace it.
-- A definition is stored as a line that the scripts read (its digest, the digest of its schedule, the start
-- time and the identity of the process that registered it) and its text, which no script reads.
-- KEYS     1 plan (the sorted set of periodic jobs by the second of their next tick; +inf is paused)
--          2 definitions  3 last ticks  4 seen (by the uptime at their last registration)
--          5 uptime of the fleet  6 alive
-- ARGV     1 identity of the process, "" for an operator  2 its start in ms, by Redis' clock
--          then for each definition: name, digest, digest of the schedule, text
-- Returns  for each definition: "stored" | "same" | "kept" (another process' or an operator's is in force) |
--          "due" (nothing is written: the schedule would change, and the old one may have a due tick)
-- Repeat   "same", or "due" until the tick is fired
-- Cost     O(definitions * log definitions of all)
local plan, definitions, lasts, seen, uptime, alive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local identity, started = ARGV[1], ARGV[2]
local first, step = 3, 4

-- include must_be
local wrong = must_be(plan, 'zset', 'ZADD', plan, '0', '') or must_be(definitions, 'hash', 'HSET', definitions, '', '')
  or must_be(lasts, 'hash', 'HSET', lasts, '', '') or must_be(seen, 'zset', 'ZADD', seen, '0', '')
  or must_be(uptime, 'string', 'GET', uptime) or must_be(alive, 'zset', 'ZSCORE', alive, '')
if wrong then
  return wrong
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local up = tonumber(redis.call('GET', uptime) or '0') or 0
local answer = {}
for at = first, #ARGV, step do
  local name, digest, schedule, text = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local old = redis.call('HGET', definitions, name)
  local old_digest, old_schedule, old_started, old_identity = string.match(old or '', '^(%S+) (%S+) (%d+) ([^\n]*)\n')
  local newer = not old_digest or identity == '' or old_identity == identity
  if not newer and old_identity ~= '' then
    local is, was = tonumber(started), tonumber(old_started)
    newer = is > was or is == was and identity > old_identity
      or tonumber(redis.call('ZSCORE', alive, old_identity) or '0') <= now_ms
  end
  local score = redis.call('ZSCORE', plan, name)
  local word = digest == old_digest and score and 'same' or 'kept'
  if newer and old_digest and schedule ~= old_schedule and score and (tonumber(score) or math.huge) <= now then
    word = 'due'
  elseif newer then
    if word == 'kept' then
      word = 'stored'
    end
    if digest ~= old_digest or started ~= old_started or identity ~= old_identity then
      redis.call('HSET', definitions, name, digest .. ' ' .. schedule .. ' ' .. started .. ' ' .. identity .. '\n' .. text)
    end
    if schedule ~= old_schedule or not score then
      redis.call('HSET', lasts, name, string.format('since %.0f', now_ms))
    end
    -- Due now, so that the poller plans it anew.
    if word == 'stored' and score ~= 'inf' then
      redis.call('ZADD', plan, string.format('%.3f', now_ms / 1000), name)
    end
  end
  if identity ~= '' and (newer or old_identity ~= '') then
    redis.call('ZADD', seen, up, name)
  elseif identity == '' and word ~= 'due' then
    redis.call('ZREM', seen, name)
  end
  answer[#answer + 1] = word
end
return answer
