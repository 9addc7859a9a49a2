#!lua flags=allow-oom
-- lengths: read the lengths of lists.
-- Why one script: the lengths are of one instant.
-- KEYS     the lists
-- ARGV     none
-- Returns  a number for each list; -1 for a key that is not a list
-- Repeat   the same
-- Cost     O(lists)
local answer = {}
for position, list in ipairs(KEYS) do
  local length = redis.pcall('LLEN', list)
  answer[position] = type(length) == 'number' and length or -1
end
return answer
