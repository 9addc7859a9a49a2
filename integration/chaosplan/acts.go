package chaosplan

import (
	"math/rand/v2"
	"time"

	"github.com/belayq/belay/internal/drivertest/slowlink"
)

// A Target is whom an act is done to.
type Target string

// The targets. Worker and Pusher are one of several, Number says which.
const (
	Worker Target = "worker"
	Pusher Target = "pusher"
	Redis  Target = "redis"
	Fleet  Target = "fleet"
)

// An Act is one fault. Nothing begins before what was done to the same target is over, but different targets
// are in trouble at once; one worker at least is always left alone by what is done to single workers.
type Act struct {
	At     time.Duration
	Fault  Fault
	Target Target
	Number int
	// For is how long it lasts, or, for signals, until what follows: the TERM after a TSTP, the start after an
	// end.
	For time.Duration
	// Text is the error of Errors, or the duration of Delay.
	Text string `json:",omitempty"`
	// Link is the speed of the connection to Redis during Latency and Bandwidth.
	Link slowlink.Speed `json:",omitzero"`
	// Shift is by how much Clock sets the clock.
	Shift time.Duration `json:",omitempty"`
	// Seed is for whatever the act has to draw: which replies are lost.
	Seed uint64
}

// A way is a fault that may be drawn: how often, for how long in lives (TTL).
type way struct {
	fault       Fault
	on          Target
	weight      int
	least, most float64
}

// ways are weighted by what they find: deaths, and lost replies, most of all. A fault that lasts is drawn on
// both sides of a TTL, which decides whether a process lapses by it.
var ways = []way{
	{Kill, Worker, 22, 0, 0.5},
	{Term, Worker, 8, 0, 0.2},
	{Quiet, Worker, 4, 0.1, 1},
	{Stop, Worker, 10, 0.2, 2.5},
	{Freeze, Worker, 3, 0.2, 2.5},
	{DropReplies, Worker, 10, 0.2, 1.5},
	{DropRequests, Worker, 5, 0.2, 1.5},
	{Unanswered, Worker, 4, 0.2, 2},
	{Unreceived, Worker, 4, 0.2, 2},
	{Blackhole, Worker, 4, 0.2, 2},
	{HangUp, Worker, 4, 0, 0},
	{Delay, Worker, 4, 0.2, 2},
	{Latency, Worker, 5, 0.2, 3},
	{Bandwidth, Worker, 5, 0.2, 3},
	{Errors, Worker, 6, 0.2, 1.5},

	{Kill, Pusher, 4, 0, 0.3},
	{DropReplies, Pusher, 4, 0.2, 1},
	{DropRequests, Pusher, 3, 0.2, 1},
	{Blackhole, Pusher, 2, 0.2, 1},
	{Errors, Pusher, 3, 0.2, 1},
	{Latency, Pusher, 2, 0.2, 1},
	{Bandwidth, Pusher, 2, 0.2, 1},

	{RedisStop, Redis, 4, 0.15, 1.6},
	{RedisKill, Redis, 4, 0.03, 1.3},
	{FlushScripts, Redis, 4, 0, 0},
	{KillClients, Redis, 4, 0, 0},
	{PauseAll, Redis, 2, 0.1, 0.6},
	{PauseWrites, Redis, 3, 0.1, 0.8},
	{Full, Redis, 4, 0.2, 1.2},
	{Clock, Redis, 5, 0.3, 2},

	{FleetStop, Fleet, 2, 0.2, 1.6},
}

// refusals are what a Redis says that is there and does not serve.
var refusals = []string{
	"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"OOM command not allowed when used memory > 'maxmemory'.", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing of slot",
}

// warmUp is what the fleet has before the first fault; recess is what a target has between two.
const (
	warmUp = 1500 * time.Millisecond
	recess = time.Second
)

// acts draws what is done, until the span is over.
func acts(r *rand.Rand, s Settings) []Act {
	var all []Act
	busy := make(map[target]time.Duration)
	for at := warmUp; ; {
		at += time.Duration(r.ExpFloat64() * float64(s.Pause)).Truncate(time.Millisecond)
		if at > s.Span {
			return all
		}
		a := draw(r, s)
		if s.KillsOnly && (a.Fault != Kill || a.Target != Worker) {
			continue
		}
		a.At = at
		if at+a.For > s.Span {
			continue
		}
		whom := target{a.Target, a.Number}
		if busy[whom] > at || (a.Target == Worker && !anotherLeft(busy, s, at, a.Number)) {
			continue
		}
		busy[whom] = at + a.For + a.stopping(s) + recess
		all = append(all, a)
	}
}

// stopping is how long a worker that is asked to stop may take for it.
func (a Act) stopping(s Settings) time.Duration {
	if a.Target == Worker && (a.Fault == Term || a.Fault == Quiet) {
		return s.ShutdownTimeout
	}
	return 0
}

type target struct {
	Target
	number int
}

// anotherLeft reports whether some other worker is in no trouble of its own.
func anotherLeft(busy map[target]time.Duration, s Settings, at time.Duration, besides int) bool {
	for n := range s.Workers {
		if n != besides && busy[target{Worker, n}] <= at {
			return true
		}
	}
	return false
}

func draw(r *rand.Rand, s Settings) Act {
	w := weighted(r, ways, func(w way) int { return w.weight })
	a := Act{Fault: w.fault, Target: w.on, Seed: r.Uint64()}
	ttls := w.least + r.Float64()*(w.most-w.least)
	a.For = time.Duration(ttls * float64(s.TTL)).Truncate(time.Millisecond)
	switch w.on {
	case Worker:
		a.Number = r.IntN(s.Workers)
	case Pusher:
		a.Number = r.IntN(s.Pushers)
	}
	switch w.fault {
	case Errors, Delay:
		a.Text = refusals[r.IntN(len(refusals))]
		if w.fault == Delay {
			// The replies of a pipeline are delayed one after the other.
			a.Text = (time.Duration(1+r.IntN(25)) * time.Millisecond).String()
		}
	case Latency:
		// A heartbeat on a new connection takes three round trips, and is late after one more period. With a
		// latency that alone makes a process lapse, the fault would hide the process instead of slowing it.
		a.Link.RoundTrip = (s.Beat/50 + time.Duration(r.Int64N(int64(s.Beat/5)))).Truncate(time.Millisecond)
	case Bandwidth:
		// The largest jobs take a third of a second at the least of these.
		a.Link.BitsPerSecond = []int64{5, 10, 40}[r.IntN(3)] * slowlink.Mbit
	case Clock:
		a.Shift = shift(r)
	}
	return a
}

// shift is seconds, or minutes, or an hour, on or back.
func shift(r *rand.Rand) time.Duration {
	most := []time.Duration{3 * time.Second, 20 * time.Second, 10 * time.Minute, time.Hour}[r.IntN(4)]
	by := (time.Second + time.Duration(r.Int64N(int64(most)))).Truncate(time.Millisecond)
	if r.IntN(2) == 0 {
		return -by
	}
	return by
}

// A Fault is something that is done.
type Fault string

// The faults.
const (
	// Signals to a worker or pusher. A worker that was sent TSTP is sent TERM later.
	Kill  Fault = "KILL"
	Term  Fault = "TERM"
	Quiet Fault = "TSTP"
	// Stop is SIGSTOP until SIGCONT, Freeze the same by the cgroup freezer.
	Stop   Fault = "stop"
	Freeze Fault = "freeze"

	// DropRequests and DropReplies lose some of them, each with its connection: what was asked was not
	// executed, or was and the reply is lost.
	DropRequests Fault = "drop requests"
	DropReplies  Fault = "drop replies"
	// Unreceived and Unanswered leave connections open on which one direction is silent: Redis receives
	// nothing, or receives and executes and its replies are lost. Blackhole silences both.
	Unreceived Fault = "unreceived"
	Unanswered Fault = "unanswered"
	Blackhole  Fault = "blackhole"
	// HangUp closes the connections, once.
	HangUp Fault = "hang up"
	// Delay delays each reply, by what Text says.
	Delay Fault = "delay"
	// Latency and Bandwidth make the connection a slow link with the speed Link. Everything arrives, only
	// later.
	Latency   Fault = "latency"
	Bandwidth Fault = "bandwidth"
	// Errors answers every request with the error in Text, without executing it.
	Errors Fault = "errors"

	// RedisStop is SIGSTOP of Redis until SIGCONT. RedisKill is a SIGKILL, and a start when the time is over;
	// nothing that was acknowledged is lost by it.
	RedisStop Fault = "redis stop"
	RedisKill Fault = "redis kill"
	// FlushScripts is SCRIPT FLUSH, KillClients CLIENT KILL of all of them.
	FlushScripts Fault = "flush scripts"
	KillClients  Fault = "kill clients"
	// PauseAll and PauseWrites are CLIENT PAUSE.
	PauseAll    Fault = "pause all"
	PauseWrites Fault = "pause writes"
	// Full is a Redis at its maxmemory: it refuses pushes, and goes on with all else.
	Full Fault = "full"
	// Clock sets Redis' wall clock by Shift, and back when the time is over.
	Clock Fault = "clock"

	// FleetStop is SIGSTOP of all workers until SIGCONT.
	FleetStop Fault = "fleet stop"
)

// Faults are all of them.
func Faults() []Fault {
	var all []Fault
	for _, w := range ways {
		all = append(all, w.fault)
	}
	return all
}
