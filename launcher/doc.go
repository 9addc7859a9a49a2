// Package launcher runs one worker process, from its first heartbeat to its last. This package is not public
// API: only what package belay exports from it carries a compatibility promise.
//
// A Launcher registers a session, starts its processors and the duties in its table (duties.go), and runs the
// loop of package fetch, which brings jobs to idle processors and settles their outcomes. At a stop they end
// in order: first no more jobs are taken, then handlers finish or are cancelled, and heartbeats continue
// until the last job is settled. The queues may change while the process runs: queues.go has what they are,
// and follow.go makes the record in Redis and the loop follow. Package service adds signals, health checks and
// systemd.
//
// It must never decide what a failure means (package retry), move a job itself (package fetch), or let
// anything a handler does - panic, exit its goroutine, ignore its context - cost another job.
package launcher
