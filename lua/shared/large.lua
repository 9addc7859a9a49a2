-- large: what a reply says of an entry that is too large to be in it: where it was met, its length, how it begins and how it ends.
-- kill_large finds it by that. The ends are long enough for a class and a jid, which stand at one of the two.
local function large(at, entry)
  local ends = 1024
  return { at, #entry, string.sub(entry, 1, ends), string.sub(entry, -ends) }
end
