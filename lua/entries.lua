#!lua flags=allow-oom
-- entries: read a page of a working list, or of the list of the quarantined job that a process runs.
-- Why a script: an entry that is too large for any page is named instead of returned, so it blocks no other
-- entry.
-- KEYS     1 list
-- ARGV     1 first index  2 entries at most  3 bytes in all at most  4 bytes of one entry at most
-- Returns  {the description by large of each entry that is too large, its index first}, then the entries,
--          newest first; fewer than asked for only at the end of the list or for the bytes read, large ones
--          included
-- Repeat   the same
-- Cost     O(entries^2) at worst, of few
local working = KEYS[1]
local index, most, room, largest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include large
local too_large = {}
local answer = { too_large }
while #answer - 1 < most and room > 0 do
  local entry = redis.call('LINDEX', working, index)
  if not entry then
    break
  end
  room = room - #entry
  if #entry <= largest then
    answer[#answer + 1] = entry
  else
    too_large[#too_large + 1] = large(index, entry)
  end
  index = index + 1
end
return answer
