-- member: what becomes of a member of a batch. "failed": it runs again. "died": it runs again only if an
-- operator retries it. "done". "removed": it was cancelled, deleted or dropped. "revived": an operator retries
-- a dead one. The keys of a part are those of batch, its text is the batch's, and its argument for each job is
-- the jid.
-- include batch
local counted, batches_in_order = {}, {}

-- jids_of: the list of what becomes of the members of a part, which is the same for all of them.
local function jids_of(part, now_ms)
  local info = KEYS[part.key]
  local b = counted[info]
  if not b then
    b = { key = part.key, of = part.of, now_ms = now_ms, done = {}, failed = {}, died = {}, removed = {}, revived = {} }
    counted[info], batches_in_order[#batches_in_order + 1] = b, b
  end
  part.jids = b[part.name]
  return part.jids
end

local function note(part, job, now_ms)
  local jids = part.jids or jids_of(part, now_ms)
  jids[#jids + 1] = ARGV[part.at + (job - 1) * part.group.step]
end

-- Each batch is counted once, after all jobs have moved: each count costs as much as some members.
local function count_all()
  for _, b in ipairs(batches_in_order) do
    count(b, b.now_ms)
  end
end

kinds.done = { may = may_count, over = note, finish = count_all }
kinds.failed = kinds.done
kinds.died = kinds.done
kinds.removed = kinds.done
kinds.revived = kinds.done
