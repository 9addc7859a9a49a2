// Package scheduler moves due jobs from the schedule and the retry set to their queues, and enqueues the jobs
// of periodic jobs at their ticks. This package is not public API: only what package belay exports from it
// carries a compatibility promise.
//
// Any number of processes may poll; each due job is moved once, by a script that reads Redis' clock. One
// process of the fleet, the poller, polls often; the others only check that there is a poller, and replace it
// if it dies. Ruby's pollers may share the sets: the jobs that they move have only Ruby's guarantee, but
// Belay promotes jobs so early that few are left for them.
//
// A tick is a periodic job's name and a nominal time. The step that stores a tick's job also records the
// tick, and only if the last recorded tick is the one that the poller has read. So each tick is enqueued
// once, whichever processes poll, whatever their clocks and zone databases say, and wherever they crash.
//
// poller.go has the lease and the pass of the poller, promote.go moves due jobs, and ticks.go fires periodic
// ones, which periodic.go defines.
//
// This package must never run a job early, change its args, or lose one that it cannot read.
package scheduler
