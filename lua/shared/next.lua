-- next: the jobs that follow one that is done, each at the back of its queue. The key of a part is queues (the
-- set of names). Its arguments are, for each job, for each of its next jobs: its bytes, the position of its
-- queue's key, and the queue's bare name.
local checked = {} -- the queues that may be pushed to

local function may_push_next(part)
  for job = 1, part.group.count do
    local at = part.at + (job - 1) * part.group.step
    for next_at = at, at + part.width - 1, 3 do
      local list = KEYS[tonumber(ARGV[next_at + 1])]
      local wrong = not checked[list] and must_be(list, 'list', 'LPUSH', list, '')
      if wrong then
        return wrong
      end
      checked[list] = true
    end
  end
end

local function push_next(part, job)
  local at = part.at + (job - 1) * part.group.step
  for next_at = at, at + part.width - 1, 3 do
    follow(KEYS[part.key], KEYS[tonumber(ARGV[next_at + 1])], ARGV[next_at + 2], ARGV[next_at])
  end
end

kinds.next = { may = may_push_next, over = push_next }
