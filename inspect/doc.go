// Package inspect reads and changes what an operator works with: counters, queues, sets, processes and
// running jobs.
//
// The command line, a dashboard and tests share it, so all of them show the same state. The JSON names of its
// types are stable, because scripts read the output of the command line. Inspector reads pages of bounded size,
// without KEYS or SCAN, from the keys that Sidekiq's own tools read, so it shows Ruby's processes too. An entry
// that cannot be read is listed in Status.Problems, and the rest is shown.
//
// A Status is not a snapshot: it is read in several round trips, and jobs move in between. So an act names jobs
// by their bytes, and a script checks whether they are still in their place: see Inspector.Act.
//
// Reading must never change anything, nor fail because of what one key holds. An act must never touch a job
// that a process holds, and must never remove a job from one place without storing it in another in the same
// step, except to delete it.
package inspect
