#!lua flags=allow-oom
-- serve: change which queues the record of a session names.
-- Why one script: the record names all lists that may hold jobs of the process. A list that has a job must stay
-- named, or no process would find that job after a crash.
-- KEYS     1 record  2 tombstones  3 list of the quarantined job that it runs  then the working lists of the
--          queues that the record names no more
-- ARGV     1 identity  2 the queues, as the record has them  3 revision: the number of this change
-- Returns  "served" | and when nothing was written: "gone" (the session has ended, or its record is lost) |
--          "stale" (a later change came first) | "busy" (a list that would not be named any more has a job)
-- Repeat   the same
-- Cost     O(queues)
local record, tombstones, running, lists = KEYS[1], KEYS[2], KEYS[3], { unpack(KEYS, 4) }
local identity, queues, revision = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('HEXISTS', record, 'ttl_ms') == 0 or redis.call('ZSCORE', tombstones, identity) then
  return 'gone'
end
-- A call whose reply was lost may arrive after later ones.
if tonumber(redis.call('HGET', record, 'revision') or 0) > revision then
  return 'stale'
end
-- A quarantined job returns to a queue that the record names.
if #lists > 0 and redis.call('EXISTS', running) == 1 then
  return 'busy'
end
for _, list in ipairs(lists) do
  if redis.call('EXISTS', list) == 1 then
    return 'busy'
  end
end

redis.call('HSET', record, 'queues', queues, 'revision', string.format('%.0f', revision))
return 'served'
