// Package inspect reads and changes what an operator works with: counters, queues, sets, processes and
// running jobs.
//
// The command line, a dashboard and tests share it, so all of them show the same state. Scripts rely on the
// JSON names below. Inspector reads pages of bounded size, without KEYS or SCAN, from the keys that Sidekiq's
// own tools read, so it shows Ruby's processes too. An entry that cannot be read is listed among the
// problems, and the rest is shown.
//
// A Status is not a snapshot: it is read in several round trips while jobs move on. Only the reply of one
// script is true at one instant. An act therefore names jobs by their bytes, and a script checks whether they
// are still there: see Inspector.Act.
//
// Reading must never change anything, nor fail because of what one key holds. An act must never touch a job
// that a process holds, and must never remove a job from one place without storing it in another in the same
// step, except to delete it.
package inspect
