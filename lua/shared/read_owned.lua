-- read_owned: reads a group of jobs with the locks and states that belong to them, from ARGV[at] on: position
-- of the first one's lock (0 for none), whether one may run once more (0|1; 2 or 3 if the jobs have state), how
-- many jobs; in a group with state then the position of the first one's state and how many fields each writes;
-- and for each job: step arguments of the script's own, from group.first on; in a group with locks then the
-- arguments of unlock; in a group with state then those of end_state.
-- group.after is the index of the first argument after the group.
local function read_owned(at, step)
  local flags = tonumber(ARGV[at + 1])
  local group = { lock = tonumber(ARGV[at]), again = flags % 2 == 1, count = tonumber(ARGV[at + 2]), first = at + 3 }
  if flags > 1 then
    group.state, group.fields, group.first = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), at + 5
  end
  if group.lock > 0 then
    group.locks, step = group.first + step, step + (group.again and 7 or 3)
  end
  if group.state then
    group.states_at, step = group.first + step, step + 3 + 2 * group.fields
  end
  group.step, group.after = step, group.first + group.count * step
  return group
end

-- may_end: nil if nothing can stop the ends of these jobs half-way; else the error. States differ only by
-- their jid: a user that may write one may write all.
local function may_end(group)
  return group.lock > 0 and may_unlock(group) or group.state and may_write_state(KEYS[group.state]) or nil
end

-- end_owned: changes the lock and the state of one of a group's jobs that has moved, as the end of its run
-- requires.
local function end_owned(group, job, queues, now_ms)
  if group.lock > 0 then
    unlock(group, job, queues, now_ms)
  end
  if group.state then
    end_state(group, job)
  end
end
