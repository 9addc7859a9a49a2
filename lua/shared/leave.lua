-- leave: a lock's value with positions in write-ahead logs left with it, of each connection the later one. lines are "NAME LSN", one
-- a line, behind what a lock's value has; an LSN is two hexadecimal numbers, which as text would be in another order. Names
-- beyond most are left out: a lock is read by every push that it refuses.
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
