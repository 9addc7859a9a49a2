#!lua flags=allow-oom
-- entries: read a page of a working list or an alone list.
-- Why a script: what is too large for any page is moved to the dead set on the way, so that nothing stands behind it.
-- KEYS     1 working list  2 dead
-- ARGV     1 first index  2 entries at most  3 bytes in all at most  4 bytes of one entry at most
-- Returns  the entries, newest first; fewer than asked for only at the end of the list or for the bytes read, moved ones
--          included: a page may be empty before the end, but then it has moved something, and the next one gets further
-- Again    the same
-- Cost     O(entries^2) at worst, of few
local working, dead = KEYS[1], KEYS[2]
local index, most, room, largest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include must_be
-- Who may not take it out of the list must not bury it either, or it lies in both.
local stays = must_be(working, 'list', 'LREM', working, '1', '')
local page, buried = {}, 0
while #page < most and room > 0 do
  local entry = redis.call('LINDEX', working, index)
  if not entry then
    break
  end
  room = room - #entry
  if #entry <= largest then
    page[#page + 1] = entry
    index = index + 1
  else
    local time = redis.call('TIME')
    -- pcall: where it cannot be buried it stays, and what lies behind it is read all the same.
    if not stays and type(redis.pcall('ZADD', dead, time[1] + (time[2] + buried) / 1000000, entry)) == 'number' then
      redis.call('LREM', working, 1, entry)
      buried = buried + 1
    else
      index = index + 1
    end
  end
end
return page
