-- waiter: what belongs to a job that leaves a gate's waiting list for an operator: the index names only gates
-- that have waiters. The keys of a part are the index and the waiting list, its text is the gate's name.
kinds.waiter = {
  may = function(part) return must_be(KEYS[part.key], 'zset', 'ZREM', KEYS[part.key], '') or may('EXISTS', KEYS[part.key + 1]) end,
  finish = function(part)
    if redis.call('EXISTS', KEYS[part.key + 1]) == 0 then
      redis.call('ZREM', KEYS[part.key], part.of)
    end
  end,
}
