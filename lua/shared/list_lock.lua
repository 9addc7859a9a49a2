-- free and list gather the changes of many locks, which unlocked makes with few commands: a command for each
-- would cost more than the rest of a batch.
local freed, unlisted, listed = {}, {}, {}
local function free(lock, digest)
  freed[#freed + 1], unlisted[#unlisted + 1] = lock, digest
end

-- list: records, for the index, until when a lock is held, and returns that time as text.
local function list(digest, until_ms)
  local text = string.format('%.0f', until_ms)
  listed[#listed + 1] = text
  listed[#listed + 1] = digest
  return text
end

local function unlocked(index)
  -- pcall: the index is only for listing, and must not make it look as if the jobs had not moved.
  if #freed > 0 then
    redis.call('DEL', unpack(freed))
    redis.pcall('ZREM', index, unpack(unlisted))
  end
  if #listed > 0 then
    redis.pcall('ZADD', index, unpack(listed))
  end
end
