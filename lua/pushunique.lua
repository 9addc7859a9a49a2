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
  or must_be(schedule, 'zset', 'ZADD', schedule, '0', '')
for job = first_job, #ARGV, step do
  local list, lock = tonumber(ARGV[job + 3]), tonumber(ARGV[job + 5])
  wrong = wrong or list > 0 and must_be(KEYS[list], 'list', 'LPUSH', KEYS[list], '')
    or lock > 0 and must_be(KEYS[lock], 'string', 'SET', KEYS[lock], '')
end
if wrong then
  return wrong
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
local answer, refused = { 'pushed' }, 0
for job = first_job, #ARGV, step do
  local due, bytes, lock, owner = now, ARGV[job + 2], tonumber(ARGV[job + 5]), ARGV[job + 7]
  if ARGV[job] == 'in' then
    due = now + ARGV[job + 1]
  elseif ARGV[job] == 'at' then
    due = tonumber(ARGV[job + 1])
  end
  local holder, held = '', false
  if lock > 0 then
    local hold_ms = math.floor(ARGV[job + 8] + math.max(0, due - now) * 1000)
    local value = redis.call('SET', KEYS[lock], '-' .. owner .. now_ms, 'NX', 'GET', 'PX', hold_ms)
    if value then
      held = true
      if string.sub(value, 2, #owner + 1) ~= owner then
        holder, refused = string.match(value, '^.([^\n]*)') or '', refused + 1
        if ARGV[job + 9] == '1' and string.sub(value, 1, 1) == 's' then
          redis.call('SETRANGE', KEYS[lock], 0, 'd')
        end
      end
    else
      redis.call('ZADD', index, now_ms + hold_ms, ARGV[job + 6])
    end
  end
  if held then
    answer[#answer + 1] = holder
  else
    answer[#answer + 1] = ''
    if ARGV[job] == 'now' then
      redis.call('SADD', queues, ARGV[job + 4])
      redis.call('LPUSH', KEYS[tonumber(ARGV[job + 3])], bytes)
    else
      redis.call('ZADD', schedule, due, bytes)
    end
  end
end
if refused > 0 then
  redis.pcall('INCRBY', refusals, refused) -- whatever else lies there, the jobs are stored
end
if numbered then
  redis.call('SET', slot, number .. ' ' .. mark .. '\n' .. table.concat(answer, '\n', 2), 'PX', remember_ms)
end
return answer
