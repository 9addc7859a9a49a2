#!lua
-- statistics: add what a process has counted to hashes of figures, and to histograms.
-- Why one script: a process that is killed between an increment and its EXPIRE would leave a key for ever.
-- No allow-oom: figures are for people, and must not fill a full Redis further.
-- KEYS     hashes of figures, such as those of a minute and of ten minutes  then histograms
-- ARGV     1 seconds to keep histograms  2 how many hashes  then of each hash the seconds to keep it  then how
--          many fields  then of each its name and what to add in all hashes  then for each histogram the type
--          of its counters, how many of them, and of each its number and what to add
-- Returns  OK, or the first error: then the other keys have been written
-- Repeat   counts twice
-- Cost     O(hashes * fields + counters)
local histogram_seconds, hashes = ARGV[1], tonumber(ARGV[2])
local first_field, fields = 4 + hashes, tonumber(ARGV[3 + hashes])

-- include must_be
local wrong
-- done: reports whether a reply is no error, and keeps the first one.
local function done(reply)
  local failed = type(reply) == 'table' and reply.err
  wrong = wrong or failed and reply
  return not failed
end

-- Nothing is added to a key if this user may not call EXPIRE on it.
local function add_fields(figures, seconds)
  local added, last = false, first_field + 2 * fields - 1
  for at = first_field, done(may('EXPIRE', figures, seconds) or may('HINCRBY', figures, '', '1')) and last or 0, 2 do
    added = done(redis.pcall('HINCRBY', figures, ARGV[at], ARGV[at + 1])) or added
  end
  if added then
    redis.call('EXPIRE', figures, seconds)
  end
end

for hash = 1, hashes do
  add_fields(KEYS[hash], ARGV[2 + hash])
end
local at = first_field + 2 * fields
for key = hashes + 1, #KEYS do
  local histogram, kind, last, words = KEYS[key], ARGV[at], at + 1 + 2 * ARGV[at + 1], { 'OVERFLOW', 'SAT' }
  for counter = at + 2, last, 2 do
    for _, word in ipairs({ 'INCRBY', kind, '#' .. ARGV[counter], ARGV[counter + 1] }) do
      words[#words + 1] = word
    end
  end
  local may_add = done(may('EXPIRE', histogram, histogram_seconds) or may('BITFIELD', histogram))
  if may_add and done(redis.pcall('BITFIELD', histogram, unpack(words))) then
    redis.call('EXPIRE', histogram, histogram_seconds)
  end
  at = last + 1
end
return wrong or redis.status_reply('OK')
