// Package verdict judges the histories of a chaos run: from what the pushers, the handlers and the nemesis wrote down (package
// history), and from what lay in Redis at the end, it says whether every job was treated as promised.
//
// It exists because a test that only counts jobs sees a loss, and nothing else: not that a job ran again for no reason, too
// late, too early, once too often, or after it was done. So each start after a job's first must have a cause that the histories
// show: its run failed, its process died or was out of Redis' sight for longer than its lease, it was handed back. What has
// no cause is a violation, and what has one is counted by cause.
//
// An excuse must name its fault. What the faults of package chaosplan may excuse stands in a table; any other name in a Begin
// or End is a violation, because what it may excuse is not known. Begin is written before the fault can have any effect, and
// End when it has none but those of connections that it broke. One of a single process names it; one that outlives its
// process, as a proxy's does, is to be begun anew for the successor. An End alone is a fault of one instant.
//
// A Spec's delay is judged by Redis' clock from the push on, as a delay that is given as one; who schedules for an instant must
// reckon it from Redis' TIME. Jobs of the kind "stranger" are those that nobody handles: they never start.
//
// What it does not judge: single steps in Redis, which package oracle does; and speed, beyond the promised time in which a
// killed process' jobs run again. It must never read a clock, a file or a server: everything is an argument.
package verdict
