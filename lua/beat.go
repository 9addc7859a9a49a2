package lua

import (
	"strconv"
	"time"

	"github.com/belayq/belay/driver"
)

var beatScript = load("beat")

// mostNamed bounds the lapsed identities in a heartbeat reply, because every reply to every process has them.
const mostNamed = MostItems / 2

// State is the state of a process, as returned by its heartbeat.
type State string

// The states of a process that asks.
const (
	StateAlive   State = "alive"
	StateDead    State = "dead"    // declared so; this identity will never beat again
	StateUnknown State = "unknown" // Redis has no record of it: its data was lost or flushed
	// StateUnrecorded is the state of a process whose record was deleted or evicted. Without the record its
	// jobs could not be found after its death, so it must register again under the same identity.
	StateUnrecorded State = "unrecorded"
)

// Pulse is the answer to a beat.
type Pulse struct {
	State State
	// Now is Redis' time.
	Now time.Time
	// Lapsed are the identities whose session has expired, and dead ones whose lists have not been found
	// empty: the latest to lapse. More reports that there may be others, which Keys.Lapsed reads.
	Lapsed []string
	More   bool
	// Signals are names sent through Sidekiq's remote control, oldest first.
	Signals []string
	// Processes is how many are alive, or lapsed and not yet recovered.
	Processes int
	// There is how many of the given keys exist.
	There int
}

// Beat keeps identity alive for ttl from now, by Redis' clock, and returns how many of some keys exist: at most
// 2*MostQueues+2.
func (k Keys) Beat(identity string, ttl time.Duration, keys ...string) Ask[Pulse] {
	return Ask[Pulse]{
		Call: driver.Call{
			Script: beatScript,
			Keys:   append([]string{k.Record(identity), k.Alive(), k.Tombstones(), k.Signals(identity)}, keys...),
			Args:   []string{identity, millis(ttl), strconv.Itoa(mostNamed)},
		},
		read: readPulse,
	}
}

func readPulse(value any) (pulse Pulse, err error) {
	word, rest, err := partsOf(value)
	if err != nil || len(rest) != 6 {
		return pulse, errShape(value)
	}
	pulse.State = State(word)
	if pulse.Now, err = timeOf(rest); err != nil {
		return pulse, err
	}
	if pulse.Lapsed, err = textsOf(rest[2]); err != nil {
		return pulse, err
	}
	pulse.More = len(pulse.Lapsed) >= mostNamed
	if pulse.Signals, err = textsOf(rest[3]); err != nil {
		return pulse, err
	}
	if pulse.Processes, err = numberOf(rest[4]); err != nil {
		return pulse, err
	}
	pulse.There, err = numberOf(rest[5])
	return pulse, err
}
