#!lua
-- statistics: add what a process has counted of some classes to the figures of a minute and of ten minutes.
-- Why one script: a process that is killed between an increment and its EXPIRE would leave a key for ever.
-- No allow-oom: figures are for people, and must not fill a full Redis further.
-- KEYS     1 figures of the minute  2 of the ten minutes  then histograms
-- ARGV     1 seconds to keep a minute's figures and histograms  2 seconds to keep those of ten minutes  3 how
--          many fields  then of each its name and what to add to both figures  then for each histogram the
--          type of its counters, how many of them, and of each its number and what to add
-- Returns  OK, or the first error: then the other keys have been written
-- Repeat   counts twice
-- Cost     O(fields + counters)
local minute, ten = KEYS[1], KEYS[2]
local minute_seconds, ten_seconds, fields = ARGV[1], ARGV[2], tonumber(ARGV[3])

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
  local added, last = false, 2 + 2 * fields
  for at = 4, done(may('EXPIRE', figures, seconds) or may('HINCRBY', figures, '', '1')) and last or 0, 2 do
    added = done(redis.pcall('HINCRBY', figures, ARGV[at], ARGV[at + 1])) or added
  end
  if added then
    redis.call('EXPIRE', figures, seconds)
  end
end

add_fields(minute, minute_seconds)
add_fields(ten, ten_seconds)
local at = 4 + 2 * fields
for key = 3, #KEYS do
  local histogram, kind, last, words = KEYS[key], ARGV[at], at + 1 + 2 * ARGV[at + 1], { 'OVERFLOW', 'SAT' }
  for counter = at + 2, last, 2 do
    for _, word in ipairs({ 'INCRBY', kind, '#' .. ARGV[counter], ARGV[counter + 1] }) do
      words[#words + 1] = word
    end
  end
  local may_add = done(may('EXPIRE', histogram, minute_seconds) or may('BITFIELD', histogram))
  if may_add and done(redis.pcall('BITFIELD', histogram, unpack(words))) then
    redis.call('EXPIRE', histogram, minute_seconds)
  end
  at = last + 1
end
return wrong or redis.status_reply('OK')
