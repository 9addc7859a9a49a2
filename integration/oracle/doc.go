// Package oracle judges, after the event, everything that happened to every job: it replays the append-only
// file of a redis-server 7 step by step and holds Belay's laws at each. What Redis wrote between MULTI and
// EXEC is one step, a script's writes; a plain command is a step of its own. It exists because a test that
// reads Redis from outside sees only a few instants, and a state that loses or doubles a job lasts
// microseconds.
//
// Start the server with
//
//	--appendonly yes --appendfsync no --auto-aof-rewrite-percentage 0
//	--aof-use-rdb-preamble no --aof-timestamp-enabled yes
//
// end it, and call [Replay]. After every step it holds that
//
//   - each accepted, unfinished job (by its jid) is in exactly one of queue, working, quarantine run,
//     quarantine, waiting list, schedule, retry, dead;
//   - it came there by an allowed move, with one removal and one addition in one step, at the right end of
//     its list;
//   - its bytes are unchanged, except for those that this move may change: a failure changes its count and
//     texts, a promotion enqueued_at, a recovery interrupted_count, by exactly one;
//   - a recovery is from a process with a tombstone, and only a process that had lapsed at two checks has
//     one;
//   - the job of a periodic job's tick comes in the step that notes the tick: once, in the order of the ticks,
//     and not before its time;
//   - the state of a job is written while a process has the job in hand, or in the step in which it leaves that
//     hand, each time with a higher version; a cursor that is a number never falls, and it goes in the step in
//     which the job ends;
//   - the counters moved in the step of the runs that they count, by as many;
//   - a batch counts its members in the steps that store and end them, and the step that decides a callback
//     stores it; it is listed with the second of its end, at most a day after its success, and all its keys go
//     in one step;
//   - of the shards of one fleet, with [OneFleet], each job is accepted on one, and each lock, gate, batch and
//     periodic job is on one;
//   - a lock comes in the step that stores its job, has an end, is listed until then, and goes with its
//     job's end, with its start where the payload says so, or with its time; and the one more run that a
//     duplicate asked for comes in the step in which the first run ends, and with the lock;
//   - the counts of a gate say how many slots and admissions there are, which are no more than its limit
//     allows; a slot is that of a job in its process' hand and leaves with it; the index names the gates with
//     waiters; no time has more starts than its rate allows; and no gate with room keeps a waiter while one
//     poller looks again and again;
//
// and at the end, that every job that was accepted is accounted for.
//
// What it does not judge:
//
//   - jobs that are equal in every byte: a sorted set makes one of them, and of texts without a jid which
//     copy went where is unknown, so they are only counted;
//   - whether a job that is gone was done or was discarded without an error: both are a run that ended;
//   - foreign programs, with the option [Foreign]: what they hold between two steps is in a place of its
//     own, Abroad, and what they do to a job's bytes there is theirs; and what a test or an operator may
//     do, with [Allow] and [Operators]. (What operators do by Belay's own commands is judged like
//     everything else, with [Acts]);
//   - FLUSHALL, which ends all jobs; only a move into the list of a process that Redis has forgotten may
//     still come;
//   - a key that was made another type: what was in it is lost, which is reported, and then it holds no
//     jobs until it is deleted;
//   - locks of jobs that a foreign program or an option's hand has ended: they stand until they run out;
//   - which of the allowed moves was the best: other tests check that a job is taken, or recovered in time.
//
// [ReplayTenures] judges keyspaces whose slots move through a Redis Cluster. What carries a slot is no step;
// so a key that a script, or its time, deletes alone while the slot moves is taken for one that moved.
//
// It reads key names by their first words, which nothing else in Belay does, except working lists: whose
// those are it knows from what processes registered. A write to a key that holds jobs, by a command that it
// does not know, is a violation. Memory is linear in the jobs that live (and eight bytes or so for each of
// the last hundred thousand that ended).
//
// It is for tests, and imports what it judges only for names: payloads are compared by a reader of its own.
package oracle
