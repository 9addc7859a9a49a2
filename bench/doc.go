// Command bench measures Belay, and beside it asynq, River, BullMQ and Ruby Sidekiq: the same work, on the
// same machine, with the same Redis, in one run.
//
// Compare only ratios within one run on one machine, and quote the command, the machine and the date with any
// figure. No figure decides a test.
//
// A measure is a file: drain.go, enqueue.go, memory.go. The bench itself runs no jobs: it starts subjects
// (see package subject), gives them tasks, and observes them and Redis from outside. Their answers go into a
// report.Result. Belay's own subject is this same program, started again with the hidden command "subject";
// those of the others are under peers.
package main
