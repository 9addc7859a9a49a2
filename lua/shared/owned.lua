-- owned: what belongs to a job, and is taken, moved or released in the step that moves the job. Each kind of
-- belonging is a file that adds itself to kinds, under each name that says what a script does with it:
--   may(part)                 nil if nothing can stop its changes half-way; else the error
--   over(part, job, now_ms)   optional: changes what belongs to a job that has moved
--   all(part, jobs, now_ms)   optional: does so for several jobs of the group
--   blocks(part, job)         optional: the jid of another job for which this one must stay; nil for none
--   finish(part)              optional: makes the changes that over or all has gathered, once for a kind
-- A part is one kind of belonging of one group: its keys begin at part.key, its arguments for the first job at
-- part.at, part.width of them, and for each later job group.step after the one before. part.of is a text that
-- all jobs of the group have in common; empty for most kinds.
local kinds, finishing = {}, {} -- finishing has one part of each kind that has a finish and is in use

-- These files add themselves when one of their kinds is needed: most jobs own nothing, and in a call for them
-- alone it would be a large part of the cost to make these functions. So it would be for jobs that have only a
-- slot, or are only members of a batch.
local function know_kinds()
-- include unlock
-- include end_state
-- include next
end
local function know_members()
-- include follow
-- include member
end
local function know_slots()
-- include slot
end
local function know_places()
-- include waiter
-- include admission
end

local function kind_of(name)
  if not kinds[name] then
    local members, slots, word = ' done failed died removed revived ', ' frees waits keeps leaves ', ' ' .. name .. ' '
    local know = string.find(members, word, 1, true) and know_members or string.find(slots, word, 1, true) and know_slots
      or (name == 'waiter' or name == 'revokes') and know_places or know_kinds
    know()
  end
  return kinds[name]
end

-- read_owned: reads a group of jobs and what belongs to them, from ARGV[at] on: how many jobs, how many kinds
-- of belongings, and of each kind its name, the position of its first key, how many arguments it has for each
-- job, and its text. Then for each job: step arguments of the script's own, from group.first on, and those of
-- each kind. A script's own arguments are the job's bytes, and then its new bytes, if it has both.
-- group.parts is nil for jobs that own nothing. group.after is the index of the first argument after the group.
-- group is the table to use; without it a new one.
local function read_owned(at, step, group)
  local count, of_kinds = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  group = group or {}
  group.count, group.own, group.first, group.parts = count, step, at + 2 + 4 * of_kinds, of_kinds > 0 and {} or nil
  for number = 1, of_kinds do
    local head = at - 2 + 4 * number
    local name, width = ARGV[head], tonumber(ARGV[head + 2])
    local part = { kind = kind_of(name), name = name, key = tonumber(ARGV[head + 1]), width = width,
      of = ARGV[head + 3], at = group.first + step, group = group }
    group.parts[number], step = part, step + width
    if part.kind.finish and not finishing[part.kind] then
      finishing[#finishing + 1], finishing[part.kind] = part, true
    end
  end
  group.step, group.after = step, group.first + count * step
  return group
end

-- may_end: nil if nothing can stop the changes of what belongs to these jobs half-way; else the error.
local function may_end(group)
  for _, part in ipairs(group.parts or {}) do
    local wrong = part.kind.may(part)
    if wrong then
      return wrong
    end
  end
end

-- blocked: the jid of another job because of which one of a group's jobs must stay where it is; nil for none.
local function blocked(group, job)
  for _, part in ipairs(group.parts or {}) do
    local holder = part.kind.blocks and part.kind.blocks(part, job)
    if holder then
      return holder
    end
  end
end

-- end_owned: changes what belongs to those of a group's jobs that have moved: a list of their numbers. A group
-- without parts needs no call.
local function end_owned(group, jobs, now_ms)
  for _, part in ipairs(group.parts or {}) do
    local kind = part.kind
    for at = 1, kind.over and #jobs or 0 do
      kind.over(part, jobs[at], now_ms)
    end
    if kind.all then
      kind.all(part, jobs, now_ms)
    end
  end
end

-- finish_owned: makes the changes that end_owned has gathered, after all jobs have moved.
local function finish_owned()
  for _, part in ipairs(finishing) do
    part.kind.finish(part)
  end
end
