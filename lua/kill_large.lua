#!lua flags=allow-oom
-- kill_large: move one entry that is too large for any reply to the dead set, with the reason in it.
-- Why one script: the entry leaves its place, enters the dead set and is counted in one step, and what belongs
-- to it changes in the same step (see owned).
-- The entry's bytes are never sent: it is found by its length, its beginning and its end. Entries that agree in
-- these get the same reason, so it does not matter which of them is moved.
-- Nothing is decoded. If the text is an object, the reason is inserted as its first members; if the object may
-- have an error already, also as its last members, because the last of two members with one name counts.
-- Sidekiq's page shows an object, and shows text that only begins like an object as text. Other JSON breaks the
-- page, so any other text becomes a string in a valid job.
-- KEYS     1 where it is  2 dead  3 processed  4 failed  5 processed today  6 failed today
--          then, by their positions, the keys of what belongs to the entry, as far as that is known
-- ARGV     1 what the first key is: "list" | "zset"  2 index or rank at which it was found  3 its length
--          4 its beginning  5 its end  6 the reason, JSON members  7 the other members of a job that holds
--          other text  8 seconds to keep a day's counters  9 bytes of other entries to read at most during the
--          search  10 dead jobs at most  11 dead seconds at most  12 the arguments of read_owned, for the entry
-- Returns  "dead" | "gone" (it is not there any more, or not among the first 256, or too many bytes are
--          before it: the next read that finds it has its new position)
-- Repeat   "gone"
-- Cost     O(length of the entry); if others were added before it since it was found, also O(256 entries) and
--          O(bytes of other entries). The last entry that is read may exceed these bytes by its own size.
--          And the dead jobs that are trimmed, 256 at most
local from, dead, processed, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processed_today, failed_today = KEYS[5], KEYS[6]
local kind, met_at, length, head, tail = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local reason, around, day_seconds, room = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local dead_most, dead_seconds = tonumber(ARGV[10]), tonumber(ARGV[11])

-- include must_be
-- include find_large
-- include owned
-- include count_runs
-- include trim_dead
local group = read_owned(12, 0)
local wrong
if kind == 'zset' then
  wrong = must_be(from, kind, 'ZREM', from, '')
else
  wrong = must_be(from, kind, 'LREM', from, '1', '')
end
wrong = wrong or must_be(dead, 'zset', 'ZADD', dead, '0', '') or may_end(group)
if wrong then
  return wrong
end

local entry = find_large(kind, from, met_at, length, head, tail, room)
if not entry then
  return 'gone'
end

local brace, last = string.match(entry, '^%s*(){%s*"'), string.find(entry, '}%s*$', -64)
local job
if not brace then
  -- A string is encoded here; nothing is decoded.
  job = '{' .. reason .. ',' .. around .. ',"belay_raw":' .. cjson.encode(entry) .. '}'
elseif last and string.find(entry, '"error_', 1, true) then
  job = string.sub(entry, 1, brace) .. reason .. ',' .. string.sub(entry, brace + 1, last - 1) .. ',' .. reason .. string.sub(entry, last)
else
  job = string.sub(entry, 1, brace) .. reason .. ',' .. string.sub(entry, brace + 1)
end

local time = redis.call('TIME')
if kind == 'zset' then
  redis.call('ZREM', from, entry)
else
  redis.call('LREM', from, 1, entry)
end
-- A list may hold two identical jobs, but a set cannot. JSON may end in blanks, so one of them gets blanks.
while redis.call('ZADD', dead, 'NX', time[1] + time[2] / 1000000, job) == 0 do
  job = job .. ' '
end
end_owned(group, { 1 }, time[1] * 1000 + math.floor(time[2] / 1000))
finish_owned()
count_runs(processed, processed_today, 1, day_seconds)
count_runs(failed, failed_today, 1, day_seconds)
trim_dead(dead, time, dead_most, dead_seconds)
return 'dead'
