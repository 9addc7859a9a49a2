-- leave: adds positions in write-ahead logs to a lock's value and keeps the later one of each connection.
-- lines has one "NAME LSN" per line, after the lock's own value. An LSN is two hexadecimal numbers, which
-- would sort wrongly as text. Names beyond most are dropped, because every refused push reads the lock.
local function leave(value, lines)
  local most = 16
  local head, tail = string.match(value, '^(.[^\n]*\n[^\n]*\n%d+)(.*)$')
  local names, position = {}, {}
  for name, text, high, low in string.gmatch((tail or '') .. '\n' .. lines, '([^ \n]+) ((%x+)/(%x+))') do
    local now, was = { text, tonumber(high, 16), tonumber(low, 16) }, position[name]
    if not was and #names < most then
      names[#names + 1], position[name] = name, now
    elseif was and (now[2] > was[2] or now[2] == was[2] and now[3] > was[3]) then
      position[name] = now
    end
  end
  for at, name in ipairs(names) do
    names[at] = '\n' .. name .. ' ' .. position[name][1]
  end
  return head and head .. table.concat(names) or value
end
