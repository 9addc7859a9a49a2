#!lua flags=allow-oom
-- page_after: read the next page of a sorted set, lowest score first, while members come and go.
-- Why a script: by rank a reader would skip jobs when others before them leave, and by score alone it could not
-- pass many of one score. So it continues after the last entry that it left in place; if that has gone, from
-- its score.
-- KEYS     1 set
-- ARGV     1 score to begin at  2 score to end with  3 entries at most  4 bytes in all at most
--          5 whether an entry was left in place (0|1)  6 the last such entry
--          then, to look for jobs by their jid: jids
-- Returns  {the entries ..., each followed by its score}; the last entry may exceed the bytes by its own size;
--          nothing at the end; with jids as in page
-- Repeat   the same
-- Cost     O(entries + log set)
local set = KEYS[1]
local begin, last, most, room = ARGV[1], tonumber(ARGV[2]) or math.huge, tonumber(ARGV[3]), tonumber(ARGV[4])
local left, sought = ARGV[5] == '1' and ARGV[6], ARGV[7]

-- include must_be
-- include read_page
-- include has_jid
local wrong = must_be(set, 'zset', 'TYPE', set)
if wrong then
  return wrong
end
local at
if left then
  local score = redis.call('ZSCORE', set, left)
  -- If the entry has moved to a later score, continue from the old score: the reader has not seen the members
  -- before its new place.
  if score and tonumber(score) <= tonumber(begin) then
    at = redis.call('ZRANK', set, left) + 1
  end
end
at = at or redis.call('ZCOUNT', set, '-inf', '(' .. begin)

local answer = {}
read_page(answer, function(taken, count)
  local found = redis.call('ZRANGE', set, at + taken, at + taken + count - 1, 'WITHSCORES')
  while #found > 0 and tonumber(found[#found]) > last do
    found[#found], found[#found - 1] = nil, nil
  end
  return found
end, 2, most, room, 1, sought and 256 or 16, sought and has_jid(7))
return answer
