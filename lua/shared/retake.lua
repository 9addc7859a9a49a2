-- retake: a job that an operator runs again takes its lock again: with "take" if it is free, and the job moves
-- in any case; with "need" the job stays where it is while another job has the lock. The keys and the arguments
-- of a part are those of unlock; there is no next job.
-- include take_lock
local function may_retake(part)
  for lock = part.key + 2, part.key + 1 + part.group.count do
    local wrong = may('SET', KEYS[lock], '') or may('GET', KEYS[lock])
    if wrong then
      return wrong
    end
  end
end

local function retake(part, job, now_ms)
  local at = part.at + (job - 1) * part.group.step
  take_lock(KEYS[part.key + 1 + job], KEYS[part.key], ARGV[at], ARGV[at + 1], ARGV[at + 2], now_ms)
end

local function lock_holder(part, job)
  local owner = ARGV[part.at + (job - 1) * part.group.step + 1]
  local value = redis.pcall('GET', KEYS[part.key + 1 + job]) -- a key of another type is not a lock
  if type(value) == 'string' and string.sub(value, 2, #owner + 1) ~= owner then
    return string.match(value, '^.([^\n]*)') or ''
  end
end

kinds.take = { may = may_retake, over = retake }
kinds.need = { may = may_retake, over = retake, blocks = lock_holder }
