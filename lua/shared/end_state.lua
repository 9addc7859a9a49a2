-- include job_state
-- end_state: writes or deletes the state of a job that has moved. The keys of a part are the states. Its
-- arguments are, for each job: created_at, the highest version that the caller used, seconds to keep the state
-- (0 deletes it), and the fields.
local function end_state(part, job)
  local state, at = KEYS[part.key + job - 1], part.at + (job - 1) * part.group.step
  if ARGV[at + 2] == '0' then
    redis.call('DEL', state)
    return
  end
  local version = math.max(state_version(state, ARGV[at]), tonumber(ARGV[at + 1])) + 1
  write_state(state, ARGV[at], version, ARGV[at + 2], at + 3, (part.width - 3) / 2)
end

-- States differ only by their jid: a user that may write one may write all.
kinds.state = { may = function(part) return may_write_state(KEYS[part.key]) end, over = end_state }
