#!lua flags=allow-oom
-- announce: write this process' entry in Sidekiq's list of processes, for Ruby's readers of every version.
-- Why one script: after a crash between the writes, a hash without a TTL would stay for ever, and Ruby
-- processes remove a name without a hash.
-- KEYS     1 processes  2 process hash  3 work (Sidekiq 6.4.2 on)  4 workers (before)  5 tombstones
-- ARGV     1 identity  2 ttl in seconds  3 how many fields  fields and values  then thread ids and work
--          entries
-- Returns  "announced" | "dead" (nothing was written)
-- Repeat   the same
-- Cost     O(running jobs)
local processes, hash, work, workers, tombstones = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local identity, ttl_s, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local first_work = 4 + 2 * fields

if redis.call('ZSCORE', tombstones, identity) then
  return 'dead'
end

redis.call('SADD', processes, identity)
redis.call('HSET', hash, unpack(ARGV, 4, first_work - 1))
redis.call('EXPIRE', hash, ttl_s)
redis.call('DEL', work, workers)
for _, key in ipairs(#ARGV >= first_work and { work, workers } or {}) do
  for at = first_work, #ARGV, 2 do
    redis.call('HSET', key, ARGV[at], ARGV[at + 1])
  end
  redis.call('EXPIRE', key, ttl_s)
end
return 'announced'
