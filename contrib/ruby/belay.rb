# Belay's unique jobs for Ruby: one file beside the sidekiq gem (6.4 or newer), to copy into a program.
#
#   class Reindex
#     include Sidekiq::Job
#     sidekiq_options belay_unique: {until: "until_executed", ttl: 3600}
#   end
#
# A push of a job that Belay or Ruby holds the lock of answers nil, as Sidekiq Enterprise's does; a job that Ruby runs,
# kills or deletes releases its lock. The options are those of Go's Unique:
#
#   until      "until_executing" (the default) or "until_executed"
#   ttl        seconds until a lock expires that is not released; six hours. Longer than the longest run: Ruby does not
#              renew locks while a job runs
#   again      true: one more run for duplicates that were refused during the run (RescheduleOnce)
#   scheduled  true: pushes for later take the lock too (IncludingScheduled)
#   mark       true: duplicates are stored and marked (MarkDuplicates)
#   per_queue  true: equal jobs of different queues are different
#
# All arguments identify a job. A class method belay_unique_args(*args) can answer an array of some of them.
#
# Keys have no prefix; a namespace of redis-namespace (Sidekiq 6) is Belay's --prefix. A job that a Ruby process takes with
# it when it is killed keeps its lock until the TTL: only Sidekiq Pro would bring back the job.
#
# An ActiveJob with this option is refused at its push: its arguments contain an id, so that no two are equal, and
# retry_on would push a duplicate. With Sidekiq::Testing fake! or inline!, and in perform_inline, nothing is locked.

require "bigdecimal"
require "bigdecimal/util"
require "digest"
require "json"
require "securerandom"
require "sidekiq"
require "sidekiq/api"

module Belay
  FIELD = "belay_unique"
  # What a rerun does not inherit.
  RUN_FIELDS = %w[retry_count failed_at retried_at error_class error_message error_backtrace belay_errors discarded_at
    interrupted_count interrupted_at overrated belay_worker_retries expiry belay_deadline_ms belay_batch belay_then
    at].freeze

  # The classes under which Rails stores every ActiveJob.
  ACTIVE_JOB = %w[ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper Sidekiq::ActiveJob::Wrapper].freeze

  # Belay's own script, byte for byte.
  PUSH_UNIQUE = <<'LUA'
#!lua
-- push_unique: store new jobs: each unique one with its lock, if that is free, each member with its batch.
-- Why one script: a lock without its job would refuse all others until it expires, and a job without its lock
-- would refuse none. A duplicate that is marked instead of refused is marked in the step that detects it;
-- otherwise the mark could name a job that has ended. The WAL positions of a refused duplicate are left with
-- the lock: the owner's run replaces the duplicate's, and start returns them. If the duplicate comes after that
-- run has begun, and the owner's rule requires it (see unlock), one more run follows. The owner's rule decides,
-- because the owner's payload will run.
-- A lock that is taken in the state "k" (kept) stays until it expires or an operator releases it: no payload
-- names it, so no script that starts, ends or moves its owner changes it. Each later push is a duplicate, also
-- one of the owner itself, because the owner may have ended.
-- A job with a lock may need that of a key too, which is kept. The key is asked first: if it is held, the push
-- changes nothing at the other lock. The job takes both or neither.
-- A member of a batch is counted in the step that stores it: a member that is not counted would let the batch
-- be over too early, and one that is not stored would let it wait for ever. A job with the jid of a pending
-- member is not stored again. No allow-oom: a full Redis must refuse new work, so that what it already holds
-- can be drained.
-- KEYS     1 queues (the set of names)  2 schedule  3 index of locks  4 counter of refusals
--          5 scope, only with an idempotency key (see seen)  then for each group its queue list, if it is for
--          now, its jobs' locks, if they have any, those of their keys, if they have any, and of their batch:
--          info, pending, batches
-- ARGV     1 number of the push in its scope, "" for no idempotency key  2 its mark
--          3 ms to keep the scope
--          then groups: "now" | "in" | "at", seconds from now or since 1970, the queue's bare name, ms to
--          hold locks from the due time ("" for no locks), what to do with a duplicate: "refuse" | "mark"
--          (store it, with the owner's jid as the last field, duplicate-of), whether one that is not stored
--          leaves positions (0|1), the state in which locks are taken: "-" | "k", BID ("" for none),
--          seconds until the batch expires, ms to hold the locks of keys from the due time ("" for no keys),
--          how many jobs, and for each its bytes; in a group with locks also digest and owner, then the
--          positions, if it leaves any, and the digest of its key, if they have any; after the jobs of a group
--          with a batch their jids
-- Returns  {"pushed"} if no job has a lock | {"pushed", for each job "" or the jid of the job that holds its
--          lock ...} | {"stale"} (see push) | {"over"} (a batch is over, or does not exist: nothing is stored)
-- Repeat   with an idempotency key: the same answer, and nothing is written. Without: a job that holds its
--          lock is not stored twice. While it waits, its own push is not a duplicate, unless the lock is kept;
--          after the start of a run that counts (see unlock), it is
-- Cost     O(jobs * log locks of all)
local queues, schedule, index, refusals, scope = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local number, mark, remember_ms, first_group = ARGV[1], ARGV[2], ARGV[3], 4
local once = number ~= ''

-- may: nil if this user may call the command, else the error. A command that is denied only after a job has
-- left its list would lose the job. (miniredis cannot check this.)
local function may(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user may not ' .. command .. ' ' .. key)
  end
end

-- must_be: nil if a key has this type or does not exist, and this user may call the command on it; else the
-- error. For the checks before a script's first write.
local function must_be(key, kind, ...)
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= kind then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. is .. ', not a ' .. kind)
  end
  return may(...)
end
-- leave: adds positions in write-ahead logs to a lock's value and keeps the later one of each connection.
-- lines has one "NAME LSN" per line, after the lock's own value. An LSN is two hexadecimal numbers, which
-- would sort wrongly as text. Names beyond most are dropped, because every refused push reads the lock.
local function leave(value, lines)
  local most = 16
  local head, tail = string.match(value, '^(.[^\n]*\n[^\n]*\n%d+)(.*)$')
  local names, position = {}, {}
  for name, text, high, low in string.gmatch((tail or '') .. '\n' .. lines, '([^ \n]+) ((%x+)/(%x+))') do
    local now, was = { text, tonumber(high, 16), tonumber(low, 16) }, position[name]
    if not was and #names < most then
      names[#names + 1], position[name] = name, now
    elseif was and (now[2] > was[2] or now[2] == was[2] and now[3] > was[3]) then
      position[name] = now
    end
  end
  for at, name in ipairs(names) do
    names[at] = '\n' .. name .. ' ' .. position[name][1]
  end
  return head and head .. table.concat(names) or value
end
-- seen: what a scope knows of a push with an idempotency key: nil if the push is new; "pushed", and the text
-- that was stored after the key, if its jobs are stored; "stale" if the scope has a later push, or another one
-- with this number; or an error, if the scope has another type or must not be read.
-- A scope stores only its last push: the number, a space and the mark. So it stays small, and a request that
-- was delayed until after a later push stores nothing. The mark distinguishes pushes with one number: if a
-- program was copied while it ran (a snapshot of its machine), both copies use the same numbers, and without
-- the mark one of them would get the reply that its jobs are stored, which would be wrong.
local function seen(scope, number, mark)
  local last = redis.pcall('GET', scope)
  if type(last) ~= 'string' then
    return last or nil
  end
  local key, after = string.match(last, '^([^\n]*)(.*)$')
  if key == number .. ' ' .. mark then
    return 'pushed', after
  end
  local stored = string.match(key, '^%d+')
  if not stored or tonumber(number) <= tonumber(stored) then
    return 'stale'
  end
end
local word, after = nil, ''
if once then
  word, after = seen(scope, number, mark)
end
if word == 'pushed' then
  local answer = { 'pushed' }
  for holder in string.gmatch(after, '\n([^\n]*)') do
    answer[#answer + 1] = holder
  end
  return answer
elseif word then
  return word == 'stale' and { 'stale' } or word
end

local wrong = once and may('SET', scope, '') or nil
local function may_join(info, pending, batches)
  return must_be(info, 'hash', 'HINCRBY', info, '', '0') or may('HMGET', info, '')
    or must_be(pending, 'set', 'SADD', pending, '') or may('SMISMEMBER', pending, '')
    or must_be(batches, 'zset', 'ZADD', batches, '0', '')
end

local groups, at, key, over, locked = {}, first_group, once and 6 or 5, false, false
while at <= #ARGV do
  local group = {
    when = ARGV[at], seconds = ARGV[at + 1], name = ARGV[at + 2], hold_ms = ARGV[at + 3], duplicate = ARGV[at + 4],
    leaves = ARGV[at + 5] == '1', state = ARGV[at + 6], bid = ARGV[at + 7], keep_seconds = ARGV[at + 8],
    key_hold_ms = ARGV[at + 9], count = tonumber(ARGV[at + 10]), first = at + 11, step = 1,
    list = false, lock = false, values = false, own_key = false, key_values = false, jids = false,
    added = 0, -- members
  }
  if group.when == 'now' then
    group.list, key = KEYS[key], key + 1
    wrong = wrong or must_be(group.list, 'list', 'LPUSH', group.list, '')
  else
    wrong = wrong or must_be(schedule, 'zset', 'ZADD', schedule, '0', '')
  end
  if group.hold_ms ~= '' then
    group.step, group.lock, locked = group.leaves and 4 or 3, key, true
    key = key + group.count
    -- Locks differ only by their digest: a user that may write one may write all.
    local lock = KEYS[group.lock]
    wrong = wrong or may('SET', lock, '')
    -- MGET returns nothing for a key of another type, which is then replaced.
    group.values = not wrong and redis.pcall('MGET', unpack(KEYS, group.lock, key - 1))
    wrong = wrong or group.values.err and group.values
    if group.key_hold_ms ~= '' then
      group.step, group.own_key, key = group.step + 1, key, key + group.count
      group.key_values = not wrong and redis.pcall('MGET', unpack(KEYS, group.own_key, key - 1))
      wrong = wrong or group.key_values.err and group.key_values
    end
  end
  if group.bid ~= '' then
    group.info, group.pending, group.batches, key = KEYS[key], KEYS[key + 1], KEYS[key + 2], key + 3
    wrong = wrong or may_join(group.info, group.pending, group.batches)
    group.jids = group.first + group.count * group.step
    local held = wrong and {} or redis.call('HMGET', group.info, 'created', 'success_at')
    over = over or not wrong and (not held[1] or held[2])
  end
  groups[#groups + 1] = group
  at = group.first + group.count * (group.step + (group.jids and 1 or 0))
end
if wrong then
  return wrong
elseif over then
  return { 'over' }
end

local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local now_ms = math.floor(now * 1000)
local since = string.format('%.0f', now_ms)
-- One command per job would cost more than the rest of the script, so each command has several jobs.
local answer, position, refused, taken = { 'pushed' }, 1, 0, {}

-- until_of: when a lock ends that is held for so many ms from the due time.
local function until_of(hold_ms, due)
  return string.format('%.0f', now_ms + math.floor(hold_ms + math.max(0, due - now) * 1000))
end

-- holder_of: a value without an owner is not ours, and refuses all the same; '' would say that the job is
-- stored.
local function holder_of(value)
  return string.match(value, '^.([^\n]+)') or '?'
end

-- pending_of: by jid, 1 for the jobs of a group that are members already.
local function pending_of(group)
  local pending = {}
  if group.jids then
    local found = redis.call('SMISMEMBER', group.pending, unpack(ARGV, group.jids, group.jids + group.count - 1))
    for job = 1, #found do -- ipairs would call a function for each
      if found[job] == 1 then
        pending[ARGV[group.jids + job - 1]] = 1
      end
    end
  end
  return pending
end

-- store_new: stores the jobs of a group if all are new, for now, and without locks. For a large batch, a loop
-- over the jobs would cost more than these commands.
local function store_new(group, pending)
  if group.lock or not group.list or next(pending) then
    return false
  end
  if group.jids then
    group.added = redis.call('SADD', group.pending, unpack(ARGV, group.jids, group.jids + group.count - 1))
    if group.added < group.count then -- a jid is there twice
      return false
    end
  end
  redis.call('LPUSH', group.list, unpack(ARGV, group.first, group.first + group.count - 1))
  return true
end
for _, group in ipairs(groups) do
  local due, arg, stored, listed, members = now, group.first, {}, {}, {}
  local until_ms, key_until_ms
  if group.when ~= 'now' then
    due = group.seconds + (group.when == 'in' and now or 0)
  end
  if group.lock then
    until_ms = until_of(group.hold_ms, due)
    key_until_ms = group.own_key and until_of(group.key_hold_ms, due)
  end
  local pending = pending_of(group)
  local is_stored = store_new(group, pending)
  if is_stored then
    position = position + group.count
  end
  for job = 0, is_stored and -1 or group.count - 1 do
    local lock = group.lock and KEYS[group.lock + job]
    local value, owner, holder = lock and (taken[lock] or group.values[job + 1]), ARGV[arg + 2], ''
    local bytes, state = ARGV[arg], value and string.sub(value, 1, 1)
    local jid = group.jids and ARGV[group.jids + job]
    local own_key = group.own_key and KEYS[group.own_key + job]
    local key_value = own_key and (taken[own_key] or group.key_values[job + 1])
    if pending[jid] == 1 then
      bytes, lock, value, key_value = nil, nil, nil, nil
    end
    -- It is stored already. (Once its run has begun, the push counts as a duplicate: the run may have missed
    -- its change. The owner of a kept lock may have ended.)
    local waits = value and string.sub(value, 2, #owner + 1) == owner and state == '-'
    if key_value then
      bytes, holder, refused = nil, holder_of(key_value), refused + 1
    elseif not value then -- nor a lock, for a member that is stored already
      if lock then
        taken[lock] = group.state .. owner .. since
        redis.call('SET', lock, taken[lock], 'PXAT', until_ms)
        listed[#listed + 1] = until_ms
        listed[#listed + 1] = ARGV[arg + 1]
      end
    else
      if not waits then
        holder = holder_of(value)
      end
      if group.duplicate == 'mark' and not waits then
        -- Belay's jids need no JSON escapes; in other ones a quotation mark must not end the string.
        local plain = string.gsub(holder, '[%c"\\\128-\255]', '?')
        bytes = string.sub(bytes, 1, -2) .. ',"duplicate-of":"' .. plain .. '"}'
      else
        bytes, refused = nil, refused + (waits and 0 or 1)
        local marked = group.leaves and leave(value, ARGV[arg + 3]) or value
        if state == 's' then
          marked = 'd' .. string.sub(marked, 2)
        end
        if marked ~= value then
          redis.call('SET', lock, marked, 'KEEPTTL')
        end
        taken[lock] = marked
      end
    end
    if bytes and own_key then
      taken[own_key] = 'k' .. owner .. since
      redis.call('SET', own_key, taken[own_key], 'PXAT', key_until_ms)
      listed[#listed + 1] = key_until_ms
      listed[#listed + 1] = ARGV[arg + group.step - 1]
    end
    if bytes then
      members[#members + 1] = jid or nil
      pending[jid] = jid and 1 -- it may come again in this call
      if not group.list then
        stored[#stored + 1] = due
      end
      stored[#stored + 1] = bytes
    end
    position = position + 1
    if locked then
      answer[position] = holder
    end
    arg = arg + group.step
  end
  if #stored > 0 and group.list then
    redis.call('LPUSH', group.list, unpack(stored))
  elseif #stored > 0 then
    redis.call('ZADD', schedule, unpack(stored))
  end
  if is_stored or #stored > 0 and group.list then
    redis.pcall('SADD', queues, group.name)
  end
  if #listed > 0 then
    redis.pcall('ZADD', index, unpack(listed))
  end
  if #members > 0 then
    group.added = group.added + redis.call('SADD', group.pending, unpack(members))
  end
  if group.added > 0 then
    redis.call('HINCRBY', group.info, 'total', group.added)
    redis.call('ZADD', group.batches, 'GT', math.floor(now) + group.keep_seconds, group.bid)
  end
end
for job = 2, locked and position or 1 do
  answer[job] = answer[job] or '' -- of a group that has no locks
end
-- pcall: the index, the counter and the names of queues are only for listing, and the jobs are stored.
if refused > 0 then
  redis.pcall('INCRBY', refusals, refused)
end
if once then
  redis.call('SET', scope, number .. ' ' .. mark .. '\n' .. table.concat(answer, '\n', 2), 'PX', remember_ms)
end
return answer
LUA

  # lock: what the run or the end of a job in Ruby means for its lock, if it is still the job's own.
  # KEYS 1 lock  2 index of locks  3 queue list  4 queues
  # ARGV 1 "take" (if it is free) | "hold" (prolong) | "mark" (hold, for one that runs once more) | "free"
  #      2 digest  3 owner  4 ttl_ms  5 owner and 6 bytes of one more run, "" for none  7 the queue's bare name
  LOCK = <<'LUA'
local what, digest, owner, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local value = redis.pcall('GET', KEYS[1])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = string.format('%.0f', now_ms + ttl_ms)
local state = type(value) == 'string' and string.sub(value, 2, #owner + 1) == owner and string.sub(value, 1, 1)
if what == 'take' then
  if not value then
    redis.call('SET', KEYS[1], string.format('-%s%.0f', owner, now_ms), 'PX', ttl_ms)
    redis.call('ZADD', KEYS[2], until_ms, digest)
  end
elseif not state then
  return 'lost'
elseif what == 'free' and not (state == 'd' and ARGV[6] ~= '') then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], digest)
elseif what == 'free' then
  local left = string.match(value, '^%d+(\n.*)$', #owner + 2) or ''
  redis.call('SET', KEYS[1], string.format('-%s%.0f', ARGV[5], now_ms) .. left, 'PX', ttl_ms)
  redis.call('LPUSH', KEYS[3], ARGV[6])
  redis.call('SADD', KEYS[4], ARGV[7])
  redis.call('ZADD', KEYS[2], until_ms, digest)
else
  redis.call('PEXPIRE', KEYS[1], ttl_ms)
  redis.call('ZADD', KEYS[2], until_ms, digest)
  if what == 'mark' and state == '-' then
    redis.call('SETRANGE', KEYS[1], 0, 's')
  end
end
return 'ok'
LUA

  class << self
    def install
      [:configure_client, :configure_server].each do |configure|
        Sidekiq.public_send(configure) do |config|
          config.client_middleware { |chain| chain.add ClientMiddleware }
          config.death_handlers << DEATH
        end
      end
      Sidekiq.configure_server { |config| config.server_middleware { |chain| chain.add ServerMiddleware } }
      Sidekiq::Client.prepend Pushed
      Sidekiq::JobRecord.prepend Deleted
      Sidekiq::SortedEntry.prepend Deleted
      Sidekiq::Queue.prepend Cleared
      Sidekiq::JobSet.prepend Cleared
    end

    # The digest of a job, by the documentation of Go's dedup.Digest.
    def digest(klass, queue, args)
      digest_of(klass, queue, JSON.generate(args))
    end

    # digest of args that are JSON already.
    def digest_of(klass, queue, args)
      args = JSON.parse(args, decimal_class: BigDecimal, max_nesting: false)
      Digest::SHA256.hexdigest(text("belay unique v1") + text(klass) + text(queue) + value(args))[0, 32]
    end

    # The lock in a payload, once a push has put it there; nil if there is none.
    def stored(job)
      lock = job.is_a?(Hash) ? job[FIELD] : nil
      lock if lock.is_a?(Hash) && lock["digest"].to_s.match?(/\A[0-9a-f]{32,128}\z/) && lock["ttl_ms"].to_i > 0
    end

    # The lock that a class' options describe.
    def lock(options, worker_class, job)
      options = options.transform_keys(&:to_s)
      args = job["args"]
      args = worker_class.belay_unique_args(*args) if worker_class.respond_to?(:belay_unique_args)
      lock = {"digest" => digest(job["class"].to_s, options["per_queue"] ? job["queue"] : "", args),
              "until" => (options["until"] || "until_executing").to_s, "ttl_ms" => ((options["ttl"] || 21_600).to_f * 1000).ceil}
      raise ArgumentError, "belay_unique: an ActiveJob cannot be unique; use a Sidekiq::Job" if ACTIVE_JOB.include?(job["class"].to_s)
      raise ArgumentError, "belay_unique: until is until_executing or until_executed" unless %w[until_executing until_executed].include?(lock["until"])
      raise ArgumentError, "belay_unique: again needs until_executed, without mark" if options["again"] && (lock["until"] != "until_executed" || options["mark"])
      %w[again scheduled mark].each { |name| lock[name] = true if options[name] }
      lock
    end

    # Whether Sidekiq's test mode keeps all pushes away from Redis.
    def testing?
      defined?(Sidekiq::Testing) && Sidekiq::Testing.enabled?
    end

    # Stores a job together with its lock. Answers whether it is stored.
    def push(job, lock, pool)
      at, job = job["at"], job.reject { |name, _| name == "at" }
      job["enqueued_at"] = now(job) unless at
      group = at ? ["at", at.to_s, ""] : ["now", "0", job["queue"]]
      keys = ["queues", "schedule", "belay:unique", "belay:stat:duplicates"]
      keys << "queue:#{job["queue"]}" unless at
      answer = call(pool, PUSH_UNIQUE, keys << "belay:lock:#{lock["digest"]}", ["", "", "", *group, lock["ttl_ms"],
        lock["mark"] ? "mark" : "refuse", "0", "-", "", "0", "", "1", Sidekiq.dump_json(job), lock["digest"], owner(job)])
      answer[1] == "" || lock["mark"] == true
    end

    # Does something to the lock of a job, which may be none.
    def change(what, job, pool = nil)
      return if testing? || !(lock = stored(job))
      queue, rerun = job["queue"] || "default", nil
      if what == "free" && lock["again"]
        rerun = job.reject { |name, _| RUN_FIELDS.include?(name) }
        rerun.update("jid" => SecureRandom.hex(12), "created_at" => now(job), "enqueued_at" => now(job))
      end
      call(pool, LOCK, ["belay:lock:#{lock["digest"]}", "belay:unique", "queue:#{queue}", "queues"],
        [what, lock["digest"], owner(job), lock["ttl_ms"], rerun ? owner(rerun) : "", rerun ? Sidekiq.dump_json(rerun) : "", queue])
    end

    private

    # Runs a script by a connection of the pool, Sidekiq's own if it is nil. redis-namespace leaves the keys of a call as
    # they are.
    def call(pool, script, keys, args)
      run = lambda do |conn|
        if conn.respond_to?(:namespace)
          keys = keys.map { |key| "#{conn.respond_to?(:full_namespace) ? conn.full_namespace : conn.namespace}:#{key}" }
          conn = conn.redis while conn.respond_to?(:namespace)
        end
        conn.call("EVAL", script, keys.size, *keys, *args.map(&:to_s))
      end
      pool ? pool.with(&run) : Sidekiq.redis(&run)
    end

    def owner(job)
      [job["jid"], job["class"]].map { |name| name.to_s.tr("\n", " ") + "\n" }.join
    end

    # Milliseconds since Sidekiq 8, seconds before.
    def now(job)
      job["created_at"].is_a?(Integer) ? (Time.now.to_f * 1000).to_i : Time.now.to_f
    end

    def text(string)
      "#{string.bytesize}:".b + string.b
    end

    def number(number)
      return "0" if number.zero?
      sign, digits, _, exponent = number.to_d.split # 0.DIGITS * 10**exponent
      "#{"-" if sign < 0}#{digits}e#{exponent - digits.length}"
    end

    def value(value)
      case value
      when nil then "n".b
      when true then "t".b
      when false then "f".b
      when String then "s".b + text(value)
      when Numeric then "d".b + text(number(value))
      when Array then "[".b + value.map { |element| value(element) }.join + "]".b
      when Hash
        members = value.sort_by { |name, _| name.b }.map { |name, member| text(name) + value(member) }
        "{".b + Digest::SHA256.digest(members.join)
      end
    end
  end

  # Finds out which lock a job needs. Nothing is stored before all middleware and Sidekiq's checks have passed the job.
  class ClientMiddleware
    def call(worker_class, job, _queue, pool)
      return yield unless job[FIELD].is_a?(Hash)
      again = Belay.stored(job)
      job[FIELD] = Belay.lock(job[FIELD], worker_class, job) unless again
      pushed = yield
      return pushed unless pushed
      lock = job[FIELD]
      if again # a retry, or a job that is due: it was accepted, and takes its lock if it may have one
        started = lock["until"] == "until_executing" && job["failed_at"]
        Belay.change("take", job, pool) unless started || job["at"]
      elsif !job["at"] || lock["scheduled"]
        job.instance_variable_set(:@belay_lock, lock)
      end
      pushed
    end
  end

  # Pushes unique jobs by Belay's script, by the connection that the client uses. A duplicate loses its jid, so that the
  # push answers nil.
  module Pushed
    def push_bulk(items)
      jids = super
      Sidekiq::VERSION.to_i < 7 ? jids.compact : jids
    end

    private

    def raw_push(payloads)
      return super if Belay.testing?
      unique, rest = payloads.partition { |job| job.instance_variable_get(:@belay_lock) }
      unique.each { |job| job.delete("jid") unless Belay.push(job, job.instance_variable_get(:@belay_lock), @redis_pool) }
      rest.empty? || super(rest)
    end
  end

  # A run that fails keeps its lock for its retry; DEATH releases that of the last one.
  class ServerMiddleware
    def call(_worker, job, _queue)
      lock = Belay.stored(job)
      return yield unless lock
      if lock["until"] == "until_executing"
        Belay.change("free", job)
        return yield
      end
      Belay.change(lock["again"] ? "mark" : "hold", job)
      result = yield
      Belay.change("free", job)
      result
    end
  end

  DEATH = ->(job, _error) { Belay.change("free", job) }

  # What Sidekiq's pages delete.
  module Deleted
    def delete
      super.tap { |deleted| Belay.change("free", item) if deleted }
    end
  end

  module Cleared
    def clear
      held = select { |job| Belay.stored(job.item) }.map(&:item)
      super.tap { held.each { |job| Belay.change("free", job) } }
    end
  end
end

Belay.install
