package main

import (
	"time"

	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// An idleFleet is a fleet of workers with default settings that has nothing to do. Its calls are calculated,
// because no machine that measures has room for thousands of processes; a test compares the calculation with
// real ones.
type idleFleet struct{ processes, shards, queues int }

// waitEvery and takeEvery are how often an idle worker asks for the jobs of a queue, by a wait and where it has
// none: fetch's maxWait and pacedTake.
const waitEvery, takeEvery = 4 * time.Second, 250 * time.Millisecond

// An idleLoad is how many calls of a kind reach one shard in a second.
type idleLoad struct {
	// beats are heartbeats, waits idle waits that end, takes those that read queues without a wait, and looks
	// those of the poller, the watcher and its deputy.
	beats, waits, takes, looks float64
}

// sum is all calls.
func (l idleLoad) sum() float64 { return l.beats + l.waits + l.takes + l.looks }

// load returns the mean load of one shard.
func (f idleFleet) load() idleLoad {
	processes := float64(f.processes)
	waits, polled := f.waits()
	return idleLoad{
		beats: processes / launcher.DefaultHeartbeat.Seconds(),
		waits: processes * float64(waits) / float64(f.shards) / waitEvery.Seconds(),
		takes: processes * float64(polled) / float64(f.shards) / takeEvery.Seconds(),
		looks: 1/launcher.DefaultPoll.Seconds() + 2/janitor.LookEvery.Seconds(),
	}
}

// waits returns how many waits a process has, and in how many shards takes read the queues because some of them
// have no wait. A process has at most lua.MaxWaits, in equal parts.
func (f idleFleet) waits() (waits, polled int) {
	left := lua.MaxWaits
	for shard := range f.shards {
		quota := min(f.queues, left/(f.shards-shard))
		left -= quota
		if waits += quota; quota < f.queues {
			polled++
		}
	}
	return waits, polled
}
