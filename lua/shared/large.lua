-- large: describes an entry that is too large for a reply: its position, its length, its beginning and its
-- end. kill_large finds it by these. Beginning and end are long enough for the class and the jid, which are in
-- one of them.
local function large(at, entry)
  local ends = 1024
  return { at, #entry, string.sub(entry, 1, ends), string.sub(entry, -ends) }
end
