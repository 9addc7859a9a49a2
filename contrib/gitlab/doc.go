// Package gitlab recovers the jobs of dead Ruby processes that used GitLab's reliable fetch for Sidekiq, for a
// fleet that leaves Ruby. Command belay-gitlab does this from the command line.
//
// Ruby processes with the gem sidekiq-reliable-fetch keep the jobs that they run in lists of their own, and
// only a living Ruby process recovers the lists of a dead one. list.go parses the names of these lists,
// recoverer.go finds the lists and moves their jobs (script recover_gitlab), and return.go has the public
// functions.
//
// It must never move a job of a process that may still be alive.
package gitlab
