// Package scheduler makes happen what time makes happen: jobs whose time has come go from the schedule and
// the retry set to their queues.
//
// Any number of processes may poll; each due job is moved once, by a script that asks Redis' clock. One of
// them, the poller, looks often; the others are its understudies and only see to it that there is one. Ruby's
// pollers may share the sets: what they move has Ruby's guarantee, and prompt promotion leaves them little.
//
// This package must never run a job early, change its args, or lose one that it cannot read.
package scheduler
