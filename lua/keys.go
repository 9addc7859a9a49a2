package lua

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keys spells every name that Belay uses in Redis. Names that Sidekiq shares are Sidekiq's own; names that
// only Belay reads begin with "belay:". No name is ever parsed, because queues and hosts may contain
// anything.
type Keys struct {
	prefix string
	dead   DeadLimits
}

// NewKeys puts prefix and a colon before every name, as Ruby's redis-namespace does; an empty prefix adds
// nothing. A prefix in braces ("{mail}") binds all of a keyspace to one slot of a Redis Cluster.
func NewKeys(prefix string) Keys {
	if prefix != "" {
		prefix += ":"
	}
	return Keys{prefix: prefix}
}

// CheckPrefix refuses a prefix with which keys of Belay would have the names of GitLab's working lists. The
// cleaner of GitLab's reliable fetch would take the jobs of living workers out of them.
func CheckPrefix(prefix string) error {
	if strings.Contains(":"+prefix+":queue:", ":working:queue:") {
		return fmt.Errorf("prefix %q: with it Belay's keys would look like the working lists of GitLab's reliable fetch; choose another one", prefix)
	}
	return nil
}

// Queues is the set of queue names. Every push adds to it, because Ruby's "clear" removes the name.
func (k Keys) Queues() string { return k.prefix + "queues" }

// Queue is the list of a queue's waiting jobs: pushed on the left, taken from the right.
func (k Keys) Queue(name string) string { return k.prefix + "queue:" + name }

// QueueLists are Queue of each of these queues, in order.
func (k Keys) QueueLists(queues []string) []string {
	lists := make([]string, len(queues))
	for i, queue := range queues {
		lists[i] = k.Queue(queue)
	}
	return lists
}

// Paused is the set of names of paused queues.
func (k Keys) Paused() string { return k.prefix + "paused" }

// Schedule is the sorted set of jobs by the second at which they are due.
func (k Keys) Schedule() string { return k.prefix + "schedule" }

// Retry is the sorted set of failed jobs by the second at which they run again.
func (k Keys) Retry() string { return k.prefix + "retry" }

// Dead is the sorted set of jobs that will not run again unless an operator retries them, by the second of
// their death.
func (k Keys) Dead() string { return k.prefix + "dead" }

// Processed counts runs that ended, failed ones included.
func (k Keys) Processed() string { return k.prefix + "stat:processed" }

// Failed counts runs that failed.
func (k Keys) Failed() string { return k.prefix + "stat:failed" }

// ProcessedOn is Processed of the UTC day of an instant.
func (k Keys) ProcessedOn(day time.Time) string {
	return k.Processed() + ":" + day.UTC().Format(time.DateOnly)
}

// FailedOn is Failed of the UTC day of an instant.
func (k Keys) FailedOn(day time.Time) string {
	return k.Failed() + ":" + day.UTC().Format(time.DateOnly)
}

// Processes is Sidekiq's set of process identities.
func (k Keys) Processes() string { return k.prefix + "processes" }

// Process is Sidekiq's hash about one process.
func (k Keys) Process(identity string) string { return k.prefix + identity }

// Work is the hash of a process' running jobs for readers of Sidekiq 6.4.2 and later.
func (k Keys) Work(identity string) string { return k.prefix + identity + ":work" }

// Workers is Work for readers up to Sidekiq 6.4.1.
func (k Keys) Workers(identity string) string { return k.prefix + identity + ":workers" }

// Signals is the list through which Ruby's API and dashboard send a process signals.
func (k Keys) Signals(identity string) string { return k.prefix + identity + "-signals" }

// Iteration is Sidekiq's hash of the state of an iterable job, with the request to cancel it.
func (k Keys) Iteration(jid string) string { return k.prefix + "it-" + jid }

// Completed is the sorted set of the jids of tracked jobs that have ended and are in no other place, by the
// second of their end. The state of some of them may have expired.
func (k Keys) Completed() string { return k.prefix + "belay:completed" }

// Ended is the channel on which the jids of tracked jobs are published that have ended, a line for each, and
// batches that have called a callback, each as "batch", a space and its id.
func (k Keys) Ended() string { return k.prefix + "belay:ended" }

// Batch is the hash of what is known about a batch. BatchPending, BatchFailed and BatchDead are sets of jids of
// its members; see shared/batch.lua. A batch's id has no colon.
func (k Keys) Batch(id string) string { return k.prefix + "belay:batch:" + id }

// BatchPending has the members of a batch that are not done, and one that is no jid until the batch is sealed.
func (k Keys) BatchPending(id string) string { return k.Batch(id) + ":pending" }

// BatchFailed has the members of a batch that have failed and are not done.
func (k Keys) BatchFailed(id string) string { return k.Batch(id) + ":failed" }

// BatchDead has the members of a batch that died and are not done.
func (k Keys) BatchDead(id string) string { return k.Batch(id) + ":dead" }

// BatchNested has the end jobs for success of the batches that were nested in a batch. They are among its
// failed members, too, until they are done. Earlier versions did not write it.
func (k Keys) BatchNested(id string) string { return k.Batch(id) + ":nested" }

// Batches is the sorted set of the ids of all batches, by the second of their expiry.
func (k Keys) Batches() string { return k.prefix + "belay:batches" }

// Alive is the sorted set of identities by the millisecond at which their session expires.
func (k Keys) Alive() string { return k.prefix + "belay:alive" }

// Up is the millisecond since which there has been a live process at each instant; see note_up.
func (k Keys) Up() string { return k.prefix + "belay:up" }

// Tombstones is the sorted set of identities that are gone for good, by the millisecond of their death.
func (k Keys) Tombstones() string { return k.prefix + "belay:tombstones" }

// Record is the hash of the facts about a process that its recovery needs (queues, beat and TTL), and of the
// verdicts on its last batches.
func (k Keys) Record(identity string) string { return k.prefix + "belay:process:" + identity }

// Working is the list of jobs of one queue that one process has taken.
func (k Keys) Working(queue, identity string) string {
	return k.prefix + "belay:working:" + queue + ":" + identity
}

// WorkingLists are Working of each of these queues, in order.
func (k Keys) WorkingLists(queues []string, identity string) []string {
	lists := make([]string, len(queues))
	for i, queue := range queues {
		lists[i] = k.Working(queue, identity)
	}
	return lists
}

// Quarantine is the list of a queue's jobs that were running in so many crashes that they run alone from now
// on: the next one to run is on the right.
func (k Keys) Quarantine(queue string) string { return k.prefix + "belay:quarantine:" + queue }

// QuarantineLists are Quarantine of each of these queues, in order.
func (k Keys) QuarantineLists(queues []string) []string {
	lists := make([]string, len(queues))
	for i, queue := range queues {
		lists[i] = k.Quarantine(queue)
	}
	return lists
}

// QuarantineRun is the list of the one quarantined job that a process runs. While it holds one, its process
// takes nothing.
func (k Keys) QuarantineRun(identity string) string {
	return k.prefix + "belay:quarantine-run:" + identity
}

// ListsOf are all lists that can hold jobs of a process with these queues: its working lists, in order, and
// last that of its quarantined job.
func (k Keys) ListsOf(queues []string, identity string) []string {
	return append(k.WorkingLists(queues, identity), k.QuarantineRun(identity))
}

// Draining is the sorted set of processes that take nothing until they are empty, for a queue's quarantined
// jobs; by the millisecond at which they give up.
func (k Keys) Draining(queue string) string { return k.prefix + "belay:drain:" + queue }

// DrainAsked is the sorted set of processes that asked to drain, by the millisecond of their last request.
func (k Keys) DrainAsked(queue string) string { return k.prefix + "belay:drain-asked:" + queue }

// Lock is the lock of a digest. The unique job that was accepted holds it until it has ended (until_executing:
// until it has started). No other key's name contains the word "lock".
func (k Keys) Lock(digest string) string { return k.prefix + lockName + digest }

const lockName = "belay:lock:"

// Left has the WAL positions that refused duplicates left with a job's lock, kept after its start has freed
// the lock: a string that expires.
func (k Keys) Left(jid string) string { return k.prefix + "belay:left:" + jid }

// Unique is the sorted set of digests that are locked, by the millisecond at which their lock expires. It may
// name some whose lock has expired.
func (k Keys) Unique() string { return k.prefix + "belay:unique" }

// Refusals counts pushes that were refused as duplicates.
func (k Keys) Refusals() string { return k.prefix + "belay:stat:duplicates" }

// Cancelled is the sorted set of marks of cancelled jobs, by the microsecond of their cancellation; see
// mark.lua.
func (k Keys) Cancelled() string { return k.prefix + "belay:cancelled" }

// Limits is the hash of the limits' sizes by name; see ReadLimits.
func (k Keys) Limits() string { return k.prefix + "belay:limits" }

// Gates is the hash of the gates' counts: of runs with a slot and of jobs that are admitted and have not
// started. See Gate.RunningField and Gate.AdmittedField. A count of 0 has no field.
func (k Keys) Gates() string { return k.prefix + "belay:gates" }

// Slots is the ledger of a process: the hash of its runs with a slot, by the SHA-1 of the job's bytes, each
// with the name of its gate.
func (k Keys) Slots(identity string) string { return k.prefix + "belay:slots:" + identity }

// Admitted is the hash of the jobs that are admitted and have not started, by the SHA-1 of the job's bytes; see
// Admission.
func (k Keys) Admitted() string { return k.prefix + "belay:admitted" }

// Waiting is the sorted set of the names of the gates that have waiters, by the second at which the poller
// looks at the gate next.
func (k Keys) Waiting() string { return k.prefix + "belay:waiting" }

// WaitingList is the list of a gate's waiters, each the name of its queue, a line feed and the job's bytes: the
// next one is on the right.
func (k Keys) WaitingList(gate string) string { return k.prefix + "belay:waiting:" + gate }

// Rate is the state of a gate's rate: the list of its last starts for a window, a string for a leaky one.
func (k Keys) Rate(gate string) string { return k.prefix + "belay:rate:" + gate }

// Stop exists while a gate starts nothing, because a handler reported too many requests.
func (k Keys) Stop(gate string) string { return k.prefix + "belay:stop:" + gate }

// Leases is the sorted set of slots that are held for callers without a job: the gate's name, a line feed and
// the holder, by the millisecond at which the slot is free again.
func (k Keys) Leases() string { return k.prefix + "belay:leases" }

// Classes is the hash of the operators' rules by class: "limit" and a number, or "drop".
func (k Keys) Classes() string { return k.prefix + "belay:classes" }

// Claim is the lease of the janitor that recovers a dead process.
func (k Keys) Claim(identity string) string { return k.prefix + "belay:claim:" + identity }

// Presence is the channel to which a session is subscribed for as long as it lives. Nothing is published there:
// Redis drops the subscription of a process that dies, and its absence is evidence.
func (k Keys) Presence(identity string) string { return k.prefix + "belay:here:" + identity }

// Shard is the record of which of several keyspaces this is.
func (k Keys) Shard() string { return k.prefix + "belay:shard" }

// Watcher and Deputy are the leases of the two processes that look which sessions have their subscription.
func (k Keys) Watcher() string { return k.prefix + "belay:watcher" }

// Deputy is the second of these leases: its holder finds out that the watcher has died.
func (k Keys) Deputy() string { return k.prefix + "belay:watcher:deputy" }

// Poller is the lease of the process that promotes due jobs and fires periodic ones. Versions without periodic
// jobs use the lease "belay:poller". If a process of such a version holds that one, it polls beside the holder
// of this one, which does no harm, and the ticks do not wait for it.
func (k Keys) Poller() string { return k.prefix + "belay:ticker" }

// PollerLeft is the channel on which a process says that it has given up the lease of the poller.
func (k Keys) PollerLeft() string { return k.prefix + "belay:ticker-left" }

// Periodic is the sorted set of periodic jobs by the second of their next tick. A score of +inf means that
// the job is paused.
func (k Keys) Periodic() string { return k.prefix + "belay:periodic" }

// PeriodicDefinitions is the hash of the periodic jobs' definitions; see ReadDefinition.
func (k Keys) PeriodicDefinitions() string { return k.prefix + "belay:periodic:definitions" }

// PeriodicLast is the hash of the periodic jobs' last ticks: the nominal time with its offset, as in
// 2026-03-29T03:00:00+02:00, or "since" and the millisecond from which ticks count.
func (k Keys) PeriodicLast() string { return k.prefix + "belay:periodic:last" }

// PeriodicSeen is the sorted set of the periodic jobs that processes have in their code, by the fleet's
// uptime when one registered them last.
func (k Keys) PeriodicSeen() string { return k.prefix + "belay:periodic:seen" }

// PeriodicUptime counts the seconds in which there was a poller and a periodic job.
func (k Keys) PeriodicUptime() string { return k.prefix + "belay:periodic:uptime" }

// PeriodicRuns is the list of a periodic job's last ticks, the newest first: the nominal time, the
// millisecond at which its job was enqueued or refused, which of the two, and the jid of that job or of the
// lock's holder.
func (k Keys) PeriodicRuns(name string) string { return k.prefix + "belay:periodic:runs:" + name }

// Sweeper is the lease of the process that checks the lists of tombstones.
func (k Keys) Sweeper() string { return k.prefix + "belay:sweeper" }

// IdempotencyScope remembers the last push of a scope, so that it can be sent again and is stored once: a
// string, the push's number and mark. It expires. Each series of pushes has a scope of its own: name identifies
// the client or the outbox that pushes, and n one of its scopes.
func (k Keys) IdempotencyScope(name string, n int) string {
	return k.prefix + "belay:pushes:" + name + ":" + strconv.Itoa(n)
}
