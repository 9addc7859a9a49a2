-- admission: the right to start of a job that leaves its queue for an operator. The queue does not know which
-- of its jobs are admitted. The keys of a part are the counts of gates, the admissions, and the index of gates
-- with waiters. Its arguments are, for each job: the SHA-1 of its bytes.
-- include less
local function may_revoke(part)
  local gates, admitted, waiting = unpack(KEYS, part.key, part.key + 2)
  part.had = {}
  local wrong = may('EXISTS', admitted)
  if wrong or redis.call('EXISTS', admitted) == 0 then
    return wrong
  end
  wrong = must_be(admitted, 'hash', 'HDEL', admitted, '') or may('HMGET', admitted, '') or may_less(gates)
    or must_be(waiting, 'zset', 'ZADD', waiting, '0', '')
  local hashes = {}
  for job = 1, wrong and 0 or part.group.count do
    hashes[job] = ARGV[part.at + (job - 1) * part.group.step]
  end
  part.had = #hashes > 0 and redis.call('HMGET', admitted, unpack(hashes)) or {}
  return wrong
end

local function revoke(part, job)
  local gates, admitted, waiting = unpack(KEYS, part.key, part.key + 2)
  local had = part.had[job]
  if had and redis.call('HDEL', admitted, ARGV[part.at + (job - 1) * part.group.step]) == 1 then -- 0 after an equal job
    local name = string.match(had, '^%d+\n([^\n]*)') -- nil if it has lapsed
    if name then
      less(gates, name .. '\na', 1)
      redis.call('ZADD', waiting, 'XX', '0', name)
    end
  end
end

kinds.revokes = { may = may_revoke, over = revoke }
