// Command bench measures Belay, and beside it asynq, River, BullMQ and Ruby Sidekiq: the same work, on the
// same machine, with the same Redis, in one run.
//
// Its figures are of one run on one machine: compare ratios inside a run, and quote the command, the machine
// and the date with any figure. Nothing here decides a test.
//
// A measure is a file: drain.go, enqueue.go, memory.go. The bench itself does none of the work: it starts
// subjects (package subject says what they are), tells them what to do, and looks at them and at Redis from
// outside. What they answer goes into a report.Result. Belay's own subject is this same program, started
// again with the hidden command "subject"; those of the others are under peers.
package main
