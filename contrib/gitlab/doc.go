// Package gitlab recovers the jobs that dead Ruby processes with GitLab's reliable fetch for Sidekiq hold,
// for a fleet that leaves Ruby. Command belay-gitlab does this from the command line.
//
// Ruby processes with the gem sidekiq-reliable-fetch keep the jobs that they run in lists of their own, and
// only a living Ruby process recovers the lists of a dead one. list.go reads the names of these lists,
// recoverer.go finds them and moves their jobs (script recover_gitlab), and return.go does both as one act.
//
// It must never move a job of a process that may still be alive.
package gitlab
