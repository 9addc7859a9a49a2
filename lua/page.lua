#!lua flags=allow-oom
-- page: read a page of a queue, of a quarantine or of a sorted set, for people.
-- Why a script: a job may have any size and a reply may not, so the size is measured while it is read.
-- KEYS     1 list or set
-- ARGV     1 order: of a list "oldest" (its right end) or "youngest" first; of a set "lowest" or "highest"
--          score first
--          2 how many to skip  3 entries at most  4 bytes in all at most
--          then, to look for jobs by their jid: an entry, or an empty text, and jids
-- Returns  {how many there are in all, the entries ..., in a set each followed by its score}; the last entry
--          may exceed the bytes by its own size; with jids only entries that may be such a job, the given
--          entry, and those that read_page adds, each followed by how many were left out before it
-- Repeat   the same
-- Cost     O(entries), O(skipped) in a list, O(log set) in a set
local key = KEYS[1]
local order, first, most, room, kept = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

-- include must_be
-- include read_page
-- include has_jid
local is_list = order == 'oldest' or order == 'youngest'
-- The entries are returned in the requested order, but a list is always read from its left end.
local function look_at(from, count)
  if order == 'lowest' then
    return redis.call('ZRANGE', key, from, from + count - 1, 'WITHSCORES')
  elseif order == 'highest' then
    return redis.call('ZREVRANGE', key, from, from + count - 1, 'WITHSCORES')
  elseif order == 'youngest' then
    return redis.call('LRANGE', key, from, from + count - 1)
  end
  local found = redis.call('LRANGE', key, -from - count, -from - 1)
  for at = 1, math.floor(#found / 2) do
    found[at], found[#found + 1 - at] = found[#found + 1 - at], found[at]
  end
  return found
end

local wrong = must_be(key, is_list and 'list' or 'zset', 'TYPE', key)
if wrong then
  return wrong
end
local total = is_list and redis.call('LLEN', key) or redis.call('ZCARD', key)
local answer, step = { total }, is_list and 1 or 2
local look, widest = 1, 16
local wanted = kept and has_jid(6, kept)
if wanted then
  widest = 256
elseif is_list and first > 10000 then -- every read deep in a list takes long
  look, widest = 16, 32
end
read_page(answer, function(taken, count)
  count = math.min(count, total - first - taken)
  return count > 0 and look_at(first + taken, count) or {}
end, step, most, room, look, widest, wanted)
return answer
