// Package fetch is the loop of a worker: it takes jobs out of Redis, gives them to processors, and is
// responsible for them until they are settled. This package is not public API: only what package belay
// exports from it carries a compatibility promise.
//
// A process registers a [Session] and moves jobs from queues into working lists named after its identity.
// While the process sends heartbeats, no other process touches these jobs. The [Loop] is one goroutine. It
// owns the ledger: every run that the process knows, with exactly one state. All decisions are derived from
// the counts of these states: how many jobs a take asks for (never more than there are idle processors), what
// a settle contains, and when a stop is complete.
//
// The files are the steps of a run: take.go, which divides the processors among several keyspaces, and wait.go
// (idle waits, without polling) bring the job, start.go decides whether it may start, pool.go passes it to a
// processor, and settle.go stores its result. Beside them, belongings.go carries the locks and slots of jobs,
// reconcile.go reads the process' own lists to find jobs whose reply was lost, quarantine.go runs a quarantined
// job with nothing beside it, follow.go changes the queues that are taken from while the loop runs, and stop.go
// ends the loop. loop.go composes the calls of a turn, and pipeline.go sends them. keyspace.go has the state of
// the loop for one keyspace, and queues.go that of its queues. Package janitor brings the jobs of dead
// processes back to their queues.
//
// This package must never decide what the outcome of a run means; package retry does.
package fetch
