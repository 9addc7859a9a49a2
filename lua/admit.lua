#!lua flags=allow-oom
-- admit: move waiters of a gate to the back of a queue, with the right to start as far as the gate has room.
-- Why one script: a waiter is in its list or in its queue, and no more jobs are admitted than may start.
-- Waiters of a paused queue leave when it is their turn, but without that right: they would keep the gate's
-- waiters of other queues from starting. They wait anew when the queue is resumed and they are taken. If the
-- limit does not exist any more, all waiters leave so.
-- KEYS     1-5 those of use_gates, but the second one stands for a ledger and is not used  6 waiting list
--          7 rate  8 stop  9 paused  10 queues (the set of names)  11 queue list
-- ARGV     1 name of the gate  2 bare name of the queue  3 waiters at most
-- Returns  {how many left, queue of the next waiter if it may leave too, but is of another queue; else empty}
-- Repeat   moves more, as far as there is room
-- Cost     O(waiters moved), O(starts that no rate counts any more)
local paused, queues, queue_list = KEYS[9], KEYS[10], KEYS[11]
local name, queue, most = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- include must_be
-- include gate
use_gates(1)
local g = gate_at(name, 6)
local wrong = may_use() or may_admit(g) or may_look({ g }) or must_be(paused, 'set', 'SISMEMBER', paused, '')
  or must_be(queue_list, 'list', 'LPUSH', queue_list, '')
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
read_counts({ g }, 'r', 'a')
local plain = not look(g, now_ms) or redis.call('SISMEMBER', paused, queue) == 1
local moved, elsewhere = admit(g, most, queues, now_ms, function(next_queue)
  return next_queue == queue and queue_list or nil, plain
end)
write_counts()
return { moved, elsewhere or '' }
