-- orphans: the jobs in a dead process' lists. ARGV names them in groups, as the header of recover says; triples
-- and running are the lists. First read_orphans checks all that could stop a move half-way, then move_orphans
-- moves them.

-- read_orphans: the groups of ARGV from this index on; or nil and the error.
local function read_orphans(triples, running, dead, at)
  local groups = {}
  while at <= #ARGV do
    local triple, to = triples[tonumber(ARGV[at])], ARGV[at + 2]
    local group = read_owned(at + 3, 2)
    group.hand, group.home = ARGV[at + 1] == 'quarantined' and running or triple.working, triple[to]
    local wrong = must_be(group.hand, 'list', 'LREM', group.hand, '1', '')
    if not wrong and to == 'dead' then
      wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
    elseif not wrong then
      wrong = must_be(group.home, 'list', 'RPUSH', group.home, '')
    end
    wrong = wrong or may_end(group)
    if wrong then
      return nil, wrong
    end
    groups[#groups + 1], at = group, group.after
  end
  return groups
end

-- move_orphans: how many jobs have moved, and how many of them to the dead set. A job that is not in its list
-- any more is skipped.
local function move_orphans(groups, dead, time, now_ms)
  local moved, killed = 0, 0
  for _, group in ipairs(groups) do
    local jobs = {}
    for job = 0, group.count - 1 do
      local arg = group.first + group.step * job
      local old, new = ARGV[arg], ARGV[arg + 1]
      if redis.call('LREM', group.hand, 1, old) == 1 then
        moved = moved + 1
        if group.home then
          redis.call('RPUSH', group.home, new)
        else
          redis.call('ZADD', dead, time[1] + (time[2] + moved) / 1000000, new)
          killed = killed + 1
        end
        jobs[#jobs + 1] = job + 1
      end
    end
    end_owned(group, jobs, now_ms)
  end
  finish_owned()
  return moved, killed
end
