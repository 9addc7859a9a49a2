#!lua flags=allow-oom
-- settle: end runs of jobs and move each job to its next place.
-- Why one script: working list, next place and counters change together. Otherwise a crash could lose the job
-- or double it.
-- The script looks for each job in the list into which it was taken. A job that is not there belongs to
-- another process: nothing is written for it. A late settle is valid as long as the job is there, so the
-- script does not check whether the process is alive.
-- What belongs to a job changes in the same step (see owned). Otherwise a crash could leave a lock without an
-- owner, or a job without its lock, beside which a duplicate would be accepted; or an older cursor for the
-- job's next run, or a cursor without a job. The next jobs of a job that is done are stored in this step, too:
-- otherwise a crash could lose them, or a repeated settle double them.
-- KEYS     1 record  2 retry  3 schedule  4 dead  5 processed  6 failed  7 processed today  8 failed today
--          then pairs: working list, queue list; for a quarantined job: the list of the one that runs,
--          quarantine list; then, by their positions, the keys of what belongs to jobs
-- ARGV     1 batch number  2 lowest number whose reply is unread  3 dead jobs at most  4 dead seconds at most
--          5 seconds to keep a day's counters  6 numbers that may be unread
--          then groups: exit, pair, counts as processed (0|1), as failed (0|1), the end of the working list
--          that the search begins at ("-1": the oldest job | "1": the newest), and the arguments of
--          read_owned, of each job its bytes, and for exits with a new place its new bytes and delay in seconds
--          exit: "done" | "discarded" | "cancelled" | "expired" | "requeued" (head of the queue) | "retry" |
--          "snoozed" | "dead" | "waits" (at its gate, which its belongings name) | "last" (back of the queue
--          list: a quarantined job that may not start now)
-- Returns  {"settled", positions of jobs that were not ours any more ...} | {"refused"} (the number is too old)
-- Repeat   a number whose verdict is still stored gets the same reply and writes nothing; for a process without
--          a record no verdict is stored, and the reply reports all jobs as lost
-- Cost     O(jobs * their distance from the end that the search begins at); the next jobs; and the dead jobs
--          that are trimmed, 256 at most
local record, retry, schedule, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local processed, failed, processed_today, failed_today = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, mark = tonumber(ARGV[1]), tonumber(ARGV[2])
local dead_most, dead_seconds, day_seconds = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local most_unread = tonumber(ARGV[6])
local homes = { retry = retry, snoozed = schedule, dead = dead }

local held = redis.call('HMGET', record, 'mark', 'batch:' .. number)
-- Redis may have lost the process (FLUSHALL, a lossy restart) while a blocked move still brought it a job.
-- Such a job may still be settled, but the verdict is not stored, because only register creates a record.
local known = held[1]
local held_mark = tonumber(held[1] or mark)
if held[2] then
  local answer = { 'settled' }
  for position in string.gmatch(held[2], '%d+') do
    answer[#answer + 1] = tonumber(position)
  end
  return answer
end
if number < held_mark then
  return { 'refused' }
end

-- include must_be
-- include owned
-- include count_runs
-- include trim_dead
local groups, at = {}, 7
while at <= #ARGV do
  local exit, pair = ARGV[at], tonumber(ARGV[at + 1])
  local group = read_owned(at + 5, homes[exit] and 3 or 1, { -- with all its fields, so that it need not grow
    exit = exit, working = KEYS[7 + 2 * pair], queue = KEYS[8 + 2 * pair], home = homes[exit],
    processed = tonumber(ARGV[at + 2]), failed = tonumber(ARGV[at + 3]), from = ARGV[at + 4],
    count = 0, own = 0, first = 0, parts = false, step = 0, after = 0,
  })
  local wrong = must_be(group.working, 'list', 'LREM', group.working, '-1', '')
  if not wrong and group.home then
    wrong = must_be(group.home, 'zset', 'ZADD', group.home, '0', '')
  elseif not wrong and group.exit == 'requeued' then
    wrong = must_be(group.queue, 'list', 'RPUSH', group.queue, '')
  elseif not wrong and group.exit == 'last' then
    wrong = must_be(group.queue, 'list', 'LPUSH', group.queue, '')
  end
  wrong = wrong or may_end(group)
  if not wrong and exit == 'waits' and not group.waits then
    wrong = redis.error_reply('ERR a job without a gate cannot wait')
  end
  if wrong then
    return wrong
  end
  groups[#groups + 1], at = group, group.after
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- A sorted set cannot hold two equal members, but a queue can hold two equal jobs, if the same bytes were
-- pushed twice. JSON may end in white space, so the second job gets the time and its position as blanks: each
-- digit is that many spaces and a tab.
local function add(home, score, job, place)
  if redis.call('ZADD', home, 'NX', score, job) == 0 then
    local blanks = string.gsub(string.format('%d%06d%03d', time[1], time[2], place), '%d', function(digit)
      return string.rep(' ', tonumber(digit)) .. '\t'
    end)
    redis.call('ZADD', home, score, job .. blanks)
  end
end

local now_ms = math.floor(now * 1000)
local answer, position, died = { 'settled' }, 0, 0
local ran, fell = 0, 0
for _, group in ipairs(groups) do
  -- Locals, because this loop is most of the cost of a job. from is a text, because Redis 7.0 prints a number
  -- by printf, which was a sixteenth of that cost.
  local working, from, home, step, arg = group.working, group.from, group.home, group.step, group.first
  local requeued, last, ended = group.exit == 'requeued', group.exit == 'last', 0
  local moved = group.parts and {}
  for job = 1, group.count do
    if redis.call('LREM', working, from, ARGV[arg]) == 0 then
      answer[#answer + 1] = position + job
    else
      ended = ended + 1
      if home then
        -- Scores are a microsecond apart, because Ruby's readers identify members of a set by their score.
        add(home, now + ARGV[arg + 2] + (position + job) / 1000000, ARGV[arg + 1], position + job)
      elseif requeued then
        redis.call('RPUSH', group.queue, ARGV[arg])
      elseif last then
        redis.call('LPUSH', group.queue, ARGV[arg])
      end
      if moved then
        moved[ended] = job
      end
    end
    arg = arg + step
  end
  if ended > 0 and moved then
    end_owned(group, moved, now_ms)
  end
  position = position + group.count
  ran, fell = ran + ended * group.processed, fell + ended * group.failed
  died = died + (group.exit == 'dead' and ended or 0)
end
finish_owned()

-- pcall from here on: the jobs have ended, and a denied command must not be reported as a failed settle.
count_runs(processed, processed_today, ran, day_seconds)
count_runs(failed, failed_today, fell, day_seconds)
if died > 0 then
  trim_dead(dead, time, dead_most, dead_seconds)
end

-- Store the verdict in case the reply is lost. Otherwise a repeated batch would not find its jobs, and all of
-- them would count as lost.
local words = {}
for at_word = 2, #answer do
  words[at_word - 1] = answer[at_word]
end
if not known then
  return answer
end
redis.pcall('HSET', record, 'mark', math.max(mark, held_mark), 'batch:' .. number, table.concat(words, ','))
-- Delete verdicts whose reply was read, at most as many as may be unread: after a restart from a snapshot,
-- or after FLUSHALL and a new record, held_mark may be a million batches old.
for old = held_mark, math.min(mark, held_mark + most_unread) - 1 do
  redis.pcall('HDEL', record, 'batch:' .. old)
end
return answer
