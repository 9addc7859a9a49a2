#!lua flags=allow-oom
-- take: move waiting jobs into the working lists of one process that is alive.
-- Why one script: a job is in its queue or in the working list of a process, never between.
-- allow-oom: a full Redis can be drained only by taking jobs.
-- An entry that is too large for a reply is moved too, but the reply only describes it: kill_large then moves
-- it to the dead set with its reason.
-- KEYS     1 alive  2 paused  3 list of the quarantined job that it runs  then pairs, in order: queue list,
--          working list
-- ARGV     1 identity  2 jobs at most  3 bytes in all at most  4 bytes of one job at most  then the queues'
--          bare names
-- Returns  {why not more, {positions of paused queues}, {for each queue that Redis refuses to move jobs of
--          {its position, the error}}, {for each entry that is too large its description by large, with the
--          queue's position first}, {position, job, ...}, ...}
--          why: "enough" | "bytes" (ask again) | "empty" | and when nothing was moved: "fenced" (the process
--          is not alive) | "quarantine" (it runs a quarantined job: a crash would count against both)
-- Repeat   takes more: jobs of a lost reply stay in the working list until their process finds them there
-- Cost     O(jobs), O(1) for each queue
local alive, paused, running = KEYS[1], KEYS[2], KEYS[3]
local identity, wanted, room, largest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local count, pairs_at = #ARGV - 4, 2

-- include large
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local expiry = tonumber(redis.call('ZSCORE', alive, identity) or 0)
if expiry <= now_ms then
  return { 'fenced', {}, {}, {} }
end
if redis.call('EXISTS', running) == 1 then
  return { 'quarantine', {}, {}, {} }
end
local resting = redis.call('SMISMEMBER', paused, unpack(ARGV, 5))

local paused_at, broken, too_large = {}, {}, {}
local answer = { 'empty', paused_at, broken, too_large }
for position = 1, count do
  local queue, working = KEYS[pairs_at + 2 * position], KEYS[pairs_at + 1 + 2 * position]
  if resting[position] == 1 then
    paused_at[#paused_at + 1] = position
  else
    local group = { position }
    while wanted > 0 and room > 0 do
      local job = redis.pcall('LMOVE', queue, working, 'RIGHT', 'LEFT')
      if not job then
        break
      end
      if type(job) == 'table' then
        -- A key of a wrong type, or one that this user may not move, blocks its own queue, not those after it.
        broken[#broken + 1] = { position, job.err }
        break
      end
      room = room - #job
      if #job <= largest then
        group[#group + 1] = job
        wanted = wanted - 1
      else
        -- The reply only describes it, so that one call never returns an enormous entry.
        too_large[#too_large + 1] = large(position, job)
      end
    end
    if #group > 1 then
      answer[#answer + 1] = group
    end
  end
end
if wanted == 0 then
  answer[1] = 'enough'
elseif room <= 0 then
  answer[1] = 'bytes'
end
return answer
