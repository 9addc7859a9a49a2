#!lua
-- pushunique: store new jobs of which some are unique: each of those only if nobody holds its lock, and with the lock.
-- Why one script: a lock without its job would refuse all others until it runs out, and a job without its lock would not
-- refuse any. Either both are there, or the answer says who holds the lock.
-- No allow-oom: a full Redis must refuse new work, so that what it already holds can be drained.
-- KEYS     1 queues (the set of names)  2 schedule  3 index of locks  4 counter of refusals
--          5 slot, of a push with a number only (see push)  then, by their positions, queue lists and locks
-- ARGV     1 number of the push in its slot, "" for none  2 its mark  3 ms to remember it
--          then for each job: "now" | "in" | "at", seconds from now or since 1970, its bytes, position of its queue's key (0
--          for later), the queue's bare name, position of its lock's key (0 for none), digest, owner, ms to hold it from when
--          it is due, and whether a duplicate of a job whose run has begun is to be run for later (0|1)
-- Returns  {"pushed", for each job "" or the jid of whoever holds its lock ...} | {"stale"} (see push)
-- Again    with a number: the same answer, and nothing is written. Without: a job whose lock is still its own is not stored twice
-- Cost     O(jobs * log locks of all)
local queues, schedule, index, refusals, slot = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local number, mark, remember_ms, first_job, step = ARGV[1], ARGV[2], ARGV[3], 4, 10
local numbered = number ~= ''

-- include must_be
local wrong = numbered and must_be(slot, 'string', 'SET', slot, '')
local last = numbered and not wrong and redis.call('GET', slot)
local told = last and string.match(last, '^([^\n]*)')
if told == number .. ' ' .. mark then
  local answer = { 'pushed' }
  for holder in string.gmatch(string.sub(last, #told + 1), '\n([^\n]*)') do
    answer[#answer + 1] = holder
  end
  return answer
end
local seen = told and string.match(told, '^%d+')
if told and (not seen or tonumber(number) <= tonumber(seen)) then
  return { 'stale' }
end
wrong = wrong or must_be(queues, 'set', 'SADD', queues, '') or must_be(index, 'zset', 'ZADD', index, '0', '')
local jobs, locks, lists, later = {}, {}, {}, false
for job = first_job, #ARGV, step do
  local list, lock = tonumber(ARGV[job + 3]), tonumber(ARGV[job + 5])
  if list == 0 then
    later = true
  elseif not lists[list] then
    lists[list] = { name = ARGV[job + 4] }
    wrong = wrong or must_be(KEYS[list], 'list', 'LPUSH', KEYS[list], '')
  end
  if lock > 0 then
    -- Locks differ by their digest alone: who may write one may write all.
    wrong = wrong or #locks == 0 and may('SET', KEYS[lock], '') or nil
    locks[#locks + 1] = KEYS[lock]
  end
  jobs[#jobs + 1] = { at = job, list = list, lock = lock, met = #locks }
end
wrong = wrong or later and must_be(schedule, 'zset', 'ZADD', schedule, '0', '') or nil
-- MGET: a key that is no lock reads as none, and becomes one.
local values = not wrong and #locks > 0 and redis.pcall('MGET', unpack(locks)) or {}
if wrong or values.err then
  return wrong or values
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
-- Many commands for one each would cost more than all the rest: what one command can do for all is gathered.
local answer, refused, indexed, scheduled, mine = { 'pushed' }, 0, {}, {}, {}
for position, job in ipairs(jobs) do
  local at = job.at
  local due = now
  if ARGV[at] == 'in' then
    due = now + ARGV[at + 1]
  elseif ARGV[at] == 'at' then
    due = tonumber(ARGV[at + 1])
  end
  local lock, owner = KEYS[job.lock], ARGV[at + 7]
  local value = lock and (mine[lock] or values[job.met])
  answer[position + 1] = ''
  if value and string.sub(value, 2, #owner + 1) ~= owner then
    answer[position + 1], refused = string.match(value, '^.([^\n]*)') or '', refused + 1
    if ARGV[at + 9] == '1' and string.sub(value, 1, 1) == 's' then
      redis.call('SETRANGE', lock, 0, 'd')
    end
  elseif not value then
    if lock then
      local hold_ms = math.floor(ARGV[at + 8] + math.max(0, due - now) * 1000)
      mine[lock] = '-' .. owner .. now_ms
      redis.call('SET', lock, mine[lock], 'PX', hold_ms)
      indexed[#indexed + 1] = now_ms + hold_ms
      indexed[#indexed + 1] = ARGV[at + 6]
    end
    if job.list > 0 then
      local list = lists[job.list]
      list[#list + 1] = ARGV[at + 2]
    else
      scheduled[#scheduled + 1] = due
      scheduled[#scheduled + 1] = ARGV[at + 2]
    end
  end
end
for list, stored in pairs(lists) do
  if #stored > 0 then
    redis.call('SADD', queues, stored.name)
    redis.call('LPUSH', KEYS[list], unpack(stored))
  end
end
if #scheduled > 0 then
  redis.call('ZADD', schedule, unpack(scheduled))
end
if #indexed > 0 then
  redis.call('ZADD', index, unpack(indexed))
end
if refused > 0 then
  redis.pcall('INCRBY', refusals, refused) -- whatever else lies there, the jobs are stored
end
if numbered then
  redis.call('SET', slot, number .. ' ' .. mark .. '\n' .. table.concat(answer, '\n', 2), 'PX', remember_ms)
end
return answer
