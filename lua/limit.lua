#!lua
-- limit: store, keep or remove the sizes of limits.
-- Why one script: an operator's size is never replaced by one of code, whichever comes first; and a size that a
-- worker registers at this moment does not expire.
-- If the processes that declare the size in force are gone for half of the time that is long, that of another
-- one replaces it: so jobs do not go back to their queues in between.
-- No allow-oom: a start stores the size of its program, if there is none.
-- KEYS     1 limits  2 since when a process has always been alive
-- ARGV     1 "starts" (a process that has it in its code starts) | "seen" (such a process lives) | "set" (an
--          operator's) | "reset" (an operator's size is that of code again) | "remove" | "expire" (remove a
--          size that is no operator's and that no process has registered for long, while processes were alive)
--          2 seconds that are long  then for each limit: name, size: "concurrency kind n ms"
-- Returns  for each: "stored" | "same" | "kept" (another size is in force) | "unknown" (there is none) |
--          "removed"
-- Repeat   "same", "kept" or "unknown"
-- Cost     O(limits)
local limits, up = KEYS[1], KEYS[2]
local act, long_seconds, first, step = ARGV[1], tonumber(ARGV[2]), 3, 2

-- include must_be
local wrong = must_be(limits, 'hash', 'HSET', limits, '', '') or may('HGET', limits, '') or may('HDEL', limits, '')
  or (act == 'seen' or act == 'expire') and must_be(up, 'string', 'GET', up)
if wrong then
  return wrong
end
local now = tonumber(redis.call('TIME')[1])
local answer = {}
for at = first, #ARGV, step do
  local name, size, word = ARGV[at], ARGV[at + 1], 'kept'
  local stored, source, seen = string.match(redis.call('HGET', limits, name) or '', '^(%S+ %S+ %S+ %S+) (%S+) (%d+)$')
  local function gone(seconds)
    return source ~= 'operator' and now - seen > seconds and now - (tonumber(redis.call('GET', up)) or math.huge) / 1000 > seconds
  end
  local function store(new, by, at_second)
    word = new == stored and by == source and 'same' or 'stored'
    redis.call('HSET', limits, name, string.format('%s %s %.0f', new, by, at_second))
  end
  if act == 'set' then
    store(size, 'operator', tonumber(seen or 0))
  elseif act == 'starts' or act == 'seen' then
    if not stored or source ~= 'operator' and (act == 'starts' or source == 'reset') or size ~= stored and gone(long_seconds / 2) then
      store(size, 'code', now)
    elseif size == stored or source == 'operator' then
      redis.call('HSET', limits, name, string.format('%s %s %.0f', stored, source, now))
      word = size == stored and 'same' or 'kept'
    end
  elseif not stored then
    word = 'unknown'
  elseif act == 'reset' then
    if source == 'operator' then
      -- Not removed: until the next registration, its waiters would be without a limit.
      store(stored, 'reset', now)
    end
  elseif act == 'remove' or gone(long_seconds) then
    redis.call('HDEL', limits, name)
    word = 'removed'
  end
  answer[#answer + 1] = word
end
return answer
