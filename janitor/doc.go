// Package janitor finds processes that have died and brings their jobs back to the heads of their queues.
// This package is not public API: only what package belay exports from it carries a compatibility promise.
//
// janitor.go decides which processes are dead, by two checks of their heartbeats, and watch.go sooner, by two
// looks at their subscriptions. recover.go moves their jobs page by page (script recover), and former.go those
// of their former identities. crash.go decides what the crash means for each job, by package retry's crash
// policy. sweep.go searches the lists of processes that ended earlier for late entries.
//
// A Janitor must never move a job of a process that may still be alive.
package janitor
