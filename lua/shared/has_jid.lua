-- has_jid: a function that reports whether an entry may be a job with one of the jids ARGV[first] and after, or
-- is the entry kept. It compares texts and decodes nothing. The jids are plain: no program writes one of their
-- characters as an escape. An entry in which the name "jid" itself could be escaped counts too.
local function has_jid(first, kept)
  local jids = {}
  for at = first, #ARGV do
    jids[ARGV[at]] = true
  end
  return function(entry)
    local from = 1
    while true do
      local _, name = string.find(entry, 'jid"', from, true)
      if not name then
        return entry == kept or string.find(entry, '\\u006', 1, true) ~= nil
      end
      if jids[string.match(entry, '^%s*:%s*"([^"]*)"', name + 1)] then
        return true
      end
      from = name + 1
    end
  end
end
