package belaytest

import (
	"strconv"
	"time"

	"github.com/belayq/belay/lua"
)

// A job whose limit has no slot waits until another run ends, as in a fleet. A rate would make a test wait for
// real time, so a Kit lets the next jobs start at once. What a handler asks for by RateLimited it keeps.

// gates returns the names of the gates that have waiters, and how long each starts nothing.
func (k *Kit) gates() map[string]time.Duration {
	stopped := make(map[string]time.Duration)
	for _, gate := range k.list("ZRANGE", k.keys.Waiting(), "0", "-1") {
		ms, _ := k.do("PTTL", k.keys.Stop(gate)).(int64)
		stopped[gate] = time.Duration(max(ms, 0)) * time.Millisecond
	}
	return stopped
}

// openGates admits the waiters of gates that are not stopped, whatever their rate.
func (k *Kit) openGates() error {
	opened := false
	for gate, stop := range k.gates() {
		if stop > 0 {
			continue
		}
		opened = true
		k.do("DEL", k.keys.Rate(gate))
		k.do("ZADD", k.keys.Waiting(), "0", gate)
	}
	if !opened {
		return nil
	}
	return k.promote()
}

// shortenStops makes gates start jobs earlier by d that RateLimited has stopped.
func (k *Kit) shortenStops(d time.Duration) {
	for gate, stop := range k.gates() {
		switch {
		case stop > d:
			k.do("PEXPIRE", k.keys.Stop(gate), strconv.FormatInt((stop-d).Milliseconds(), 10))
		case stop > 0:
			k.do("DEL", k.keys.Stop(gate))
		}
	}
}

// atGates returns the jobs that wait at gates, each gate's in the order in which they will start.
func (k *Kit) atGates() (all []Waiting) {
	for _, gate := range k.list("ZRANGE", k.keys.Waiting(), "0", "-1") {
		name, _ := lua.Gate{Name: gate}.Limit()
		entries := k.list("LRANGE", k.keys.WaitingList(gate), "0", "-1")
		for i := range entries {
			waiter := lua.ParseWaiter(entries[len(entries)-1-i])
			all = append(all, k.withPush(Waiting{Job: k.parse(waiter.Bytes), Queue: waiter.Queue, Limit: name}))
		}
	}
	return all
}
