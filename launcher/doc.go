// Package launcher is one worker process, from its first beat to its last.
//
// A Launcher registers an identity, starts its processors and the duties in its table (duties.go), and runs
// the manager, which brings jobs from the fetcher to idle processors and the ends of their runs back.
// Taking, working and beating end in that order: first nothing more is taken, then handlers are let finish
// or are cancelled, and the heart beats until the last job is settled.
//
// A Group is several Launchers under one Run, a worker and its capsules, and judges whether they are well.
// Package service brings signals, health checks and systemd to it.
//
// It must never decide what a failure means (package retry), move a job itself (package fetch), or let
// anything a handler does - panic, exit its goroutine, ignore its context - cost another job.
package launcher
