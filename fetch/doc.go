// Package fetch is the loop of a worker: it takes jobs out of Redis, gives them to processors, and is
// responsible for them until they are settled.
//
// A process registers a [Session] and moves jobs from queues into working lists named after its identity.
// While it sends heartbeats, no other process touches them. The [Loop] is one goroutine. It owns the ledger:
// every run that the process knows, with exactly one state. All decisions are derived from the counts of
// these states: how many jobs a take asks for (never more than there are idle processors), what a settle
// contains, and when a stop is complete.
//
// The files are the steps of a run: take.go, wait.go (idle waits, without polling), start.go, pool.go,
// settle.go. Beside them, reconcile.go finds jobs whose reply was lost by reading the process' own lists,
// quarantine.go runs a job that crashed its process alone, and stop.go ends the loop. keyspace.go is what the
// loop knows of one keyspace. Package janitor is the other side: it brings the jobs of dead processes back to
// their queues.
//
// This package must never decide what the outcome of a run means; package retry does.
package fetch
