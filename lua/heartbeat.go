package lua

import (
	"strconv"
	"time"
)

var heartbeatScript = load("heartbeat")

// mostNamed bounds the lapsed identities in a heartbeat reply, because every reply to every process has them.
const mostNamed = MostItems / 2

// mostSignals bounds the signals that one heartbeat takes: as each is removed with its reply, a lost reply
// must not lose many.
const mostSignals = 8

// State is what a process is, according to the reply to its heartbeat.
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

// HeartbeatReply is the answer to a beat.
type HeartbeatReply struct {
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

// Heartbeat keeps identity alive for ttl from now, by Redis' clock, and returns how many of some keys exist:
// at most 2*MostQueues+2.
func (k Keys) Heartbeat(identity string, ttl time.Duration, keys ...string) Ask[HeartbeatReply] {
	return asking(heartbeatScript, append([]string{k.Record(identity), k.Alive(), k.Tombstones(), k.Signals(identity)}, keys...),
		[]string{identity, millis(ttl), strconv.Itoa(mostNamed), strconv.Itoa(mostSignals)}, readHeartbeat)
}

func readHeartbeat(value any) (reply HeartbeatReply, err error) {
	word, rest, err := partsOf(value)
	if err != nil || len(rest) != 6 {
		return reply, errShape(value)
	}
	reply.State = State(word)
	if reply.Now, err = timeOf(rest); err != nil {
		return reply, err
	}
	if reply.Lapsed, err = textsOf(rest[2]); err != nil {
		return reply, err
	}
	reply.More = len(reply.Lapsed) >= mostNamed
	if reply.Signals, err = textsOf(rest[3]); err != nil {
		return reply, err
	}
	if reply.Processes, err = numberOf(rest[4]); err != nil {
		return reply, err
	}
	reply.There, err = numberOf(rest[5])
	return reply, err
}
