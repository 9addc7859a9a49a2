-- find_large: the entry of a list or sorted set that large has described, nil if it is not there any more, or
-- not among the first 256, or if more than room bytes of other entries come before it.
local function find_large(kind, from, met_at, length, head, tail, room)
  local function read(at)
    local entry
    if kind == 'zset' then
      entry = redis.call('ZRANGE', from, at, at)[1]
    else
      entry = redis.call('LINDEX', from, at)
    end
    if entry and #entry == length and string.sub(entry, 1, #head) == head and string.sub(entry, -#tail) == tail then
      return entry
    end
    -- Other entries may be as large as this one, and each comparison copies one.
    room = room - (entry and #entry or 0)
  end

  local entry, at = read(met_at), 0
  while not entry and at < 256 and room > 0 do
    entry, at = read(at), at + 1
  end
  return entry
end
