-- read_page: adds entries to an answer: at most most of them, until they exceed room bytes, or to the end.
-- read(taken, count) returns the next entries, each of step elements. Few at first, because their sizes are
-- unknown until they are read; then twice as many each time, up to widest.
local function read_page(answer, read, step, most, room, look, widest)
  local taken = 0
  while taken < most and room > 0 do
    local found = read(taken, math.min(look, most - taken))
    if #found == 0 then
      return
    end
    look = math.min(2 * look, widest)
    for at = 1, #found, step do
      if room > 0 then
        for part = at, at + step - 1 do
          answer[#answer + 1] = found[part]
        end
        taken = taken + 1
        room = room - #found[at]
        if #found[at] > 16384 then
          look = 1
        end
      end
    end
  end
end
