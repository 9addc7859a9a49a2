-- follow: stores a next job: one that another job's end decides, in the same step. queues and list are keys,
-- name is the queue's bare name.
local function follow(queues, list, name, text)
  redis.call('LPUSH', list, text)
  redis.pcall('SADD', queues, name) -- the job is there, even if this fails
end
