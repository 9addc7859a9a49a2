-- read_page: adds entries to an answer: at most most of them, until they exceed room bytes, or to the end.
-- read(taken, count) returns the next entries, each of step elements. Few at first, because their sizes are
-- unknown until they are read; then twice as many each time, up to widest.
-- With wanted, a function, it leaves out entries for which that is false, but the first, the last, and each one
-- before an entry that is wanted; they count for most and room all the same. Each entry in the answer is then
-- followed by how many were left out just before it.
local function read_page(answer, read, step, most, room, look, widest, wanted)
  local taken, left_out = 0, 0
  local before, before_at -- the last entry, until it is known whether the next one is wanted
  local function add(found, at)
    for part = at, at + step - 1 do
      answer[#answer + 1] = found[part]
    end
    if wanted then
      answer[#answer + 1] = left_out
      left_out = 0
    end
  end
  local function add_before()
    if before then
      add(before, before_at)
      before = nil
    end
  end
  while taken < most and room > 0 do
    local found = read(taken, math.min(look, most - taken))
    if #found == 0 then
      break
    end
    look = math.min(2 * look, widest)
    for at = 1, #found, step do
      if room > 0 then
        if not wanted then
          add(found, at)
        elseif taken == 0 or wanted(found[at]) then
          add_before()
          add(found, at)
        else
          left_out = left_out + (before and 1 or 0)
          before, before_at = found, at
        end
        taken = taken + 1
        room = room - #found[at]
        if #found[at] > 16384 then
          look = 1
        end
      end
    end
  end
  add_before()
end
