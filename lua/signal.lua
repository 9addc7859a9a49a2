#!lua flags=allow-oom
-- signal: send a process a signal, as Ruby's pages do.
-- Why one script: a list of signals without an expiry would stay for a process that never returns; and
-- nothing is sent to an unknown process.
-- KEYS     1 signals  2 processes (Sidekiq's set)  3 alive
-- ARGV     1 identity  2 signal  3 seconds to keep it
-- Returns  "sent" | "unknown" (no such process; nothing was written)
-- Repeat   sends it again
-- Cost     O(log processes)
local signals, processes, alive = KEYS[1], KEYS[2], KEYS[3]
local identity, name, keep = ARGV[1], ARGV[2], ARGV[3]

-- include must_be
if redis.call('SISMEMBER', processes, identity) == 0 and not redis.call('ZSCORE', alive, identity) then
  return 'unknown'
end
local wrong = must_be(signals, 'list', 'EXPIRE', signals, keep)
if wrong then
  return wrong
end
redis.call('LPUSH', signals, name)
redis.call('EXPIRE', signals, keep)
return 'sent'
