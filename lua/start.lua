#!lua flags=allow-oom
-- start: record that the runs of unique jobs begin, or that they do not after all.
-- Why one script: with until_executing the lock is freed here, but only if the process still owns the job and
-- the job still owns the lock. With until_executed and a possible rerun, this run does not serve duplicates
-- refused from here on; the rerun does.
-- It changes a lock from "-" to "s" once, at the first start; a job that starts again keeps its state. It
-- also renews the lock, because the first renew would be too late for a short one, and a rerun would be lost
-- with it.
-- It returns the positions that refused duplicates left with the lock (see pushunique). If the lock is freed,
-- they are kept in another key for the job's next start, in case the reply or the run is lost.
-- KEYS     1 index of locks  then for each group the working list, and its jobs' locks, and in a group
--          "leave" the keys for their positions
-- ARGV     groups: "release" | "leave" (release, and keep its positions) | "hold" | "mark" (hold, and note
--          that duplicates from now on need a rerun) | "back" (take it again, if it is free: the job goes
--          back and waits as before), how many jobs, and for each: its bytes, digest, owner, ms to keep the
--          positions or to hold the lock
-- Returns  {"started", {positions of jobs that are not in the list any more}, {positions of jobs, each
--          followed by the WAL positions left with its lock}}
-- Again    renews again, and changes nothing more; a group "leave" returns its WAL positions again
-- Cost     O(jobs * (length of the list + log of all locks))
local index = KEYS[1]
local groups, at, key = {}, 1, 2
while at <= #ARGV do
  local what, count = ARGV[at], tonumber(ARGV[at + 1])
  local group = { holds = what == 'hold' or what == 'mark', marks = what == 'mark', back = what == 'back',
    left = what == 'leave' and key + 1 + count, count = count, first = at + 2, list = KEYS[key], lock = key + 1, kept = {} }
  groups[#groups + 1] = group
  at, key = group.first + 4 * count, group.lock + count * (group.left and 2 or 1)
end

-- include must_be
-- include take_lock
for _, group in ipairs(groups) do
  local lock = KEYS[group.lock]
  -- Locks differ only by their digest: a user that may write one may write all.
  local wrong = must_be(group.list, 'list', 'LPOS', group.list, '') or may('SETRANGE', lock, '0', '') or may('DEL', lock)
    or may('PEXPIRE', lock, '0') or may('SET', lock, '')
  -- MGET returns nothing for a key of another type, which then counts as free.
  group.values = wrong or redis.pcall('MGET', unpack(KEYS, group.lock, group.lock + group.count - 1))
  if wrong or group.values.err then
    return group.values
  end
  if group.left then
    local left = KEYS[group.left]
    group.kept = may('SET', left, '') or redis.pcall('MGET', unpack(KEYS, group.left, group.left + group.count - 1))
    if group.kept.err then
      return group.kept
    end
  end
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local lost, left_behind, position, freed, unlisted, listed = {}, {}, 0, {}, {}, {}
for _, group in ipairs(groups) do
  for job = 0, group.count - 1 do
    local arg, lock, value = group.first + 4 * job, KEYS[group.lock + job], group.values[job + 1]
    local owner, left = ARGV[arg + 2], group.kept[job + 1] or ''
    position = position + 1
    if not redis.call('LPOS', group.list, ARGV[arg]) then
      lost[#lost + 1], left = position, ''
    elseif group.back then
      take_lock(lock, index, ARGV[arg + 1], owner, ARGV[arg + 3], now_ms)
    elseif value and string.sub(value, 2, #owner + 1) == owner then
      local now = string.match(value, '^%d+(\n.*)$', #owner + 2) or ''
      left = left .. now
      if group.left and now ~= '' then
        redis.call('SET', KEYS[group.left + job], left, 'PX', ARGV[arg + 3])
      end
      if group.holds then
        redis.call('PEXPIRE', lock, ARGV[arg + 3])
        listed[#listed + 1] = string.format('%.0f', now_ms + ARGV[arg + 3])
        listed[#listed + 1] = ARGV[arg + 1]
      else
        freed[#freed + 1], unlisted[#unlisted + 1] = lock, ARGV[arg + 1]
      end
      if group.marks and string.sub(value, 1, 1) == '-' then
        redis.call('SETRANGE', lock, 0, 's')
      end
    end
    if left ~= '' then
      left_behind[#left_behind + 1] = position
      left_behind[#left_behind + 1] = left
    end
  end
end
-- pcall: the index is only for listing.
if #freed > 0 then
  redis.call('DEL', unpack(freed))
  redis.pcall('ZREM', index, unpack(unlisted))
end
if #listed > 0 then
  redis.pcall('ZADD', index, unpack(listed))
end
return { 'started', lost, left_behind }
