-- member: what becomes of a member of a batch. "failed": it runs again. "died": it runs again only if an
-- operator retries it. "done". "removed": it was cancelled, deleted or dropped. "revived": an operator retries
-- a dead one. The keys of a part are those of batch, its text is the batch's, and its argument for each job is
-- the jid.
-- include batch
local batches, batches_in_order = {}, {}

local function may_member(part)
  local info = KEYS[part.key]
  local b = batches[info]
  if not b then
    b = { key = part.key, of = part.of, most = 0, done = {}, failed = {}, died = {}, removed = {}, revived = {},
      far = true, some_failed = false, now_ms = false }
    batches[info], batches_in_order[#batches_in_order + 1] = b, b
  end
  part.batch = b
  if b.far then -- else all is checked
    b.most = b.most + part.group.count
    return may_count(b, part.name == 'done' and b.most or nil)
  end
end

local function note(part, jobs, now_ms)
  local b, step, args = part.batch, part.group.step, ARGV
  local jids, before_first = b[part.name], part.at - step
  local count = #jids
  for at = 1, #jobs do
    jids[count + at] = args[before_first + step * jobs[at]]
  end
  b.now_ms = now_ms
end

-- Each batch is counted once, after all jobs have moved: each count costs as much as some members.
local function count_all()
  for _, b in ipairs(batches_in_order) do
    if b.now_ms then -- else no member has moved
      count(b, b.now_ms)
    end
  end
end

kinds.done = { may = may_member, all = note, finish = count_all }
kinds.failed = kinds.done
kinds.died = kinds.done
kinds.removed = kinds.done
kinds.revived = kinds.done
