// Package janitor finds processes that have died and brings their jobs back to the heads of their queues.
//
// A Janitor judges absence, declares dead, moves jobs page by page, and sweeps the lists of processes that
// have ended. It never moves a job of a process that may still be alive, and it charges a crash to a job only
// as package retry's crash policy says.
package janitor
