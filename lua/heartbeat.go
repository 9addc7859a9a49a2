package lua

import (
	"strconv"
	"time"
)

var heartbeatScript = load("heartbeat")

// maxNamed bounds the lapsed identities in a heartbeat reply, because every reply to every process has them.
const maxNamed = MaxItems / 2

// maxSignals bounds the signals that one heartbeat takes: as each is removed with its reply, a lost reply
// must not lose many.
const maxSignals = 8

// State is the state of a process according to the reply to its heartbeat.
type State string

// The states of a process that sends a heartbeat.
const (
	StateAlive   State = "alive"
	StateDead    State = "dead"    // it was declared dead; this identity can never renew its session
	StateUnknown State = "unknown" // Redis has no record of it: its data was lost or flushed
	// StateUnrecorded is the state of a process whose record was deleted or evicted. Without the record its
	// jobs could not be found after its death, so it must register again under the same identity.
	StateUnrecorded State = "unrecorded"
)

// HeartbeatReply is the reply to a heartbeat.
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
	// There is the number of the given keys that exist.
	There int
	// Marked is the score of the newest mark, for Marks.Notice; empty if there are none.
	Marked string
	// Subscribed is how many subscriptions the channel of the session has on the server that has answered; -1
	// if Redis does not permit the question.
	Subscribed int
}

// Heartbeat keeps identity alive for ttl from now, by Redis' clock, and returns how many of some keys exist:
// at most 2*MaxQueues+2.
func (k Keys) Heartbeat(identity string, ttl time.Duration, keys ...string) Ask[HeartbeatReply] {
	return asking(heartbeatScript, append([]string{k.Record(identity), k.Alive(), k.Tombstones(), k.Signals(identity), k.Cancelled(), k.Up()}, keys...),
		[]string{identity, millis(ttl), strconv.Itoa(maxNamed), strconv.Itoa(maxSignals), k.Presence(identity)}, readHeartbeat)
}

func readHeartbeat(r reader) (reply HeartbeatReply, err error) {
	reply.State, reply.Now = State(r.text()), r.time()
	reply.Lapsed, reply.Signals = r.innerTexts(), r.innerTexts()
	reply.More = len(reply.Lapsed) >= maxNamed
	reply.Processes, reply.There, reply.Marked, reply.Subscribed = r.number(), r.number(), r.text(), r.number()
	return reply, r.end()
}
