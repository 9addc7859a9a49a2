#!lua flags=allow-oom
-- save: write fields of a running job's state, such as its cursor.
-- Why one script: a save that arrives late must not change what a later save or a later run has written. So
-- the job must still be in the list into which this run took it, and the version must be above the stored one.
-- KEYS     1 the list in which the run has the job  2 state of the job
-- ARGV     1 the job's bytes  2 version, higher than that of any earlier write that the run knows of
--          3 the job's created_at, as text  4 seconds to keep the state  then fields: name, value; an empty
--          value removes the field
-- Returns  "saved" | "lost" (the job is not in the list any more) | "stale" (the state has this version or a
--          later one) | "cancelled" (saved, and a Ruby program has asked to stop the job); after "lost" and
--          "stale" nothing was written
-- Repeat   answers "stale"
-- Cost     O(length of the list + fields)
local list, state = KEYS[1], KEYS[2]
local bytes, version, created, ttl_seconds = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

-- include must_be
-- include job_state
local wrong = must_be(list, 'list', 'LPOS', list, '') or may_write_state(state)
if wrong then
  return wrong
end
if not redis.call('LPOS', list, bytes) then
  return { 'lost' }
elseif version <= state_version(state, created) then
  return { 'stale' }
end
write_state(state, created, version, ttl_seconds, 5, (#ARGV - 4) / 2)
return { redis.call('HEXISTS', state, 'cancelled') == 1 and 'cancelled' or 'saved' }
