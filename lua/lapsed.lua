#!lua flags=allow-oom
-- lapsed: read a page of the lapsed processes, the earliest first.
-- Why a script: one clock, Redis', decides which processes have lapsed.
-- KEYS     1 alive
-- ARGV     1 how many to skip  2 names at most
-- Returns  the identities; fewer than asked for only at the end
-- Repeat   the same, as long as none sends a heartbeat or is recovered
-- Cost     O(log processes + names)
local alive = KEYS[1]
local first, most = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGE', alive, first, first + most - 1, 'WITHSCORES')
local names = {}
for at = 1, #found, 2 do
  if tonumber(found[at + 1]) > now_ms then
    break
  end
  names[#names + 1] = found[at]
end
return names
