-- seen: what a scope knows of a push with an idempotency key: nil if the push is new; "pushed", and the text
-- that was stored after the key, if its jobs are stored; "stale" if the scope has a later push, or another one
-- with this number; or an error, if the scope has another type or must not be read.
-- A scope stores only its last push: the number, a space and the mark. So it stays small, and a request that
-- was delayed until after a later push stores nothing. The mark distinguishes pushes with one number: if a
-- program was copied while it ran (a snapshot of its machine), both copies use the same numbers, and without
-- the mark one of them would get the reply that its jobs are stored, which would be wrong.
local function seen(scope, number, mark)
  local last = redis.pcall('GET', scope)
  if type(last) ~= 'string' then
    return last or nil
  end
  local key, after = string.match(last, '^([^\n]*)(.*)$')
  if key == number .. ' ' .. mark then
    return 'pushed', after
  end
  local stored = string.match(key, '^%d+')
  if not stored or tonumber(number) <= tonumber(stored) then
    return 'stale'
  end
end
