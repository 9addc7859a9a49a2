-- orphans: the jobs in a dead process' lists. ARGV names them in groups, as the header of recover says; triples
-- and running are the lists. First read_orphans checks all that could stop a move half-way, then move_orphans
-- moves them.

-- read_orphans: the groups of ARGV from this index on; or nil and the error.
local function read_orphans(triples, running, dead, at)
  local groups = {}
  while at <= #ARGV do
    local triple, to = triples[tonumber(ARGV[at])], ARGV[at + 2]
    local group = { hand = ARGV[at + 1] == 'quarantined' and running or triple.working, home = triple[to], lock = tonumber(ARGV[at + 3]),
      again = tonumber(ARGV[at + 4]) % 2 == 1, count = tonumber(ARGV[at + 5]), first = at + 6, step = 2 }
    if tonumber(ARGV[at + 4]) > 1 then
      group.state, group.fields, group.first = tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]), at + 8
    end
    if group.lock > 0 then
      group.locks = group.first + group.step
      group.step = group.step + (group.again and 7 or 3)
    end
    if group.state then
      group.states_at = group.first + group.step
      group.step = group.step + 3 + 2 * group.fields
    end
    local wrong = must_be(group.hand, 'list', 'LREM', group.hand, '1', '')
    if not wrong and to == 'dead' then
      wrong = must_be(dead, 'zset', 'ZADD', dead, '0', '')
    elseif not wrong then
      wrong = must_be(group.home, 'list', 'RPUSH', group.home, '')
    end
    if not wrong and group.lock > 0 then
      wrong = may_unlock(group)
    end
    if not wrong and group.state then
      wrong = may_write_state(KEYS[group.state])
    end
    if wrong then
      return nil, wrong
    end
    groups[#groups + 1] = group
    at = group.first + group.step * group.count
  end
  return groups
end

-- move_orphans: how many jobs have moved, and how many of them to the dead set. A job that is not in its list
-- any more is skipped.
local function move_orphans(groups, dead, queues, time, now_ms)
  local moved, killed = 0, 0
  for _, group in ipairs(groups) do
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
        if group.lock > 0 then
          unlock(group, job + 1, group.home ~= nil, queues, now_ms)
        end
        if group.state then
          end_state(group, job + 1)
        end
      end
    end
  end
  return moved, killed
end
