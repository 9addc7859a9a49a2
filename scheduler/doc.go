// Package scheduler makes happen what time brings: it moves jobs that are due from the schedule and the retry
// set to their queues, and enqueues the jobs of periodic ones at their ticks.
//
// Any number of processes may poll; each due job is moved once, by a script that reads Redis' clock. One
// process of the fleet, the poller, polls often; the others only check that there is a poller, and replace
// it if it dies. Ruby's pollers may share the sets: the jobs that they move have Ruby's guarantee, but Belay
// promotes jobs so early that few are left for them.
//
// A tick is a periodic job's name and a nominal time. Each one is noted in the step that stores its job, and
// only if the tick before it is the last that was noted: so it is enqueued once, whichever processes poll,
// whatever their clocks and zone databases say, and wherever they crash.
//
// This package must never run a job early, change its args, or lose one that it cannot read.
package scheduler
