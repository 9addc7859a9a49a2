#!lua flags=allow-oom
-- heartbeat: keep a session alive for one more TTL; report lapsed processes, free leases and lists that exist.
-- Why one script: a process that was declared dead must never renew its session, or two would own its jobs.
-- Most heartbeats of an idle process are no script: see Keys.Prolong. It can only prolong a session, so all
-- else is decided here.
-- KEYS     1 record  2 alive  3 tombstones  4 since when a process has always been alive  5… leases, then
--          signals (Ruby's remote control), marks of cancelled jobs, and keys that may exist
-- ARGV     1 identity  2 ttl_ms  3 names at most  4 signals at most  5 how many leases  6 channel of the
--          session's subscription  7… for each lease how many ms this process would hold it
-- Returns  {"alive" | "dead" (for ever) | "unknown" (Redis has lost the session) | "unrecorded" (it has lost
--          only the record: register again under this identity), seconds, microseconds, {lapsed identities},
--          {signals}, {positions of the leases that no process holds, from 1}, how many of the keys that may
--          exist do, score of the newest mark or empty, subscriptions to the channel on this server, -1 if the
--          user may not ask}
-- Repeat   renews again; a signal whose reply was lost is gone, as in Ruby
-- Cost     O(log processes + names + leases + keys)
local record, alive, tombstones, up = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local identity, ttl_ms, most, most_signals, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[6]
local first_lease, first_hold = 5, 7
local signals_at = first_lease + ARGV[5]
local signals, marks = KEYS[signals_at], KEYS[signals_at + 1]

-- include busy
-- include note_up
-- include subscribers
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- In two parts: %d is fast, has 31 bits at least, and a score in ms needs more.
local function score(ms)
  return string.format('%d%03d', math.floor(ms / 1000), ms % 1000)
end
local now, till = score(now_ms), score(now_ms + ttl_ms)
-- A call of Keys.Prolong that comes late, after this script, adds less than a TTL to an expiry. One that is
-- further off than that was written before the clock was set back.
local too_late = score(now_ms + 2 * ttl_ms)
local state, expiry = 'alive', redis.call('ZSCORE', alive, identity)
-- Whatever writes a tombstone ends the session in alive, so one that has not lapsed is not dead.
local lapsed_self = not expiry or tonumber(expiry) <= now_ms
if lapsed_self and redis.call('ZSCORE', tombstones, identity) then
  state = 'dead'
elseif redis.call('HEXISTS', record, 'ttl_ms') == 0 then
  state = expiry and 'unrecorded' or 'unknown'
end
if state == 'alive' then
  if lapsed_self then
    note_up(alive, up, now_ms)
  end
  redis.call('ZADD', alive, till, identity)
end
local received, newest, there = {}, '', redis.call('EXISTS', unpack(KEYS, signals_at))
if there > 0 then
  while state == 'alive' and #received < most_signals do
    local signal = redis.pcall('RPOP', signals)
    if type(signal) ~= 'string' then
      break
    end
    received[#received + 1] = signal
  end
  newest = redis.pcall('ZSCORE', marks, '') -- a key of another type has no marks
  newest = type(newest) == 'string' and newest or ''
  there = signals_at + 1 < #KEYS and redis.call('EXISTS', unpack(KEYS, signals_at + 2)) or 0
end
local lapsed = {}
if redis.call('ZCOUNT', alive, '(' .. now, too_late) < redis.call('ZCARD', alive) then
  -- The latest first: processes that cannot be recovered stay, and must not hide those that lapse now.
  lapsed = redis.call('ZRANGE', alive, now_ms, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, most)
  -- A process with a longer TTL than ours may be named here too; recover checks again.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', alive, '(' .. too_late, '+inf', 'LIMIT', 0, most)) do
    lapsed[#lapsed + 1] = name
  end
end
local unheld = {}
for at = first_lease, signals_at - 1 do
  if not busy(KEYS[at], ARGV[at - first_lease + first_hold]) then
    unheld[#unheld + 1] = at - first_lease + 1
  end
end
return { state, tonumber(time[1]), tonumber(time[2]), lapsed, received, unheld, there, newest, subscribers(channel) }
