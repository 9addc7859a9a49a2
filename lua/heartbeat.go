package lua

import (
	"slices"
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

// A Watched is a key at which a heartbeat looks: a lease, if Hold is set, which is how long this process would
// hold it; otherwise a key that may exist.
type Watched struct {
	Key  string
	Hold time.Duration
}

// HeartbeatReply is the reply to a heartbeat.
type HeartbeatReply struct {
	State State
	// Now is Redis' time.
	Now time.Time
	// Expiry is when a session that is alive lapses without a further heartbeat, by Redis' clock.
	Expiry time.Time
	// Lapsed are the identities whose session has expired, and dead ones whose lists have not been found
	// empty: the latest to lapse. More reports that there may be others, which Keys.Lapsed reads.
	Lapsed []string
	More   bool
	// Signals are names sent through Sidekiq's remote control, oldest first.
	Signals []string
	// Free are the watched leases that no process holds, by key.
	Free []string
	// There is the number of the watched keys that exist, without the leases.
	There int
	// Marked is the score of the newest mark, for Marks.Notice; empty if there are none.
	Marked string
	// Subscribed is how many subscriptions the channel of the session has on the server that has answered; -1
	// if Redis does not permit the question, or if it was not asked.
	Subscribed int
}

// Calm reports whether the session is alive and there is nothing to do about any other part of the reply.
func (r HeartbeatReply) Calm() bool {
	return r.State == StateAlive && len(r.Lapsed)+len(r.Signals)+len(r.Free)+r.There == 0
}

// Heartbeat keeps identity alive for ttl from now, by Redis' clock, and looks at some leases and at most
// 2*MaxQueues+2 other keys.
func (k Keys) Heartbeat(identity string, ttl time.Duration, watched ...Watched) Ask[HeartbeatReply] {
	keys := []string{k.Record(identity), k.Alive(), k.Tombstones(), k.Up()}
	leases, holds, others := k.apart(identity, watched)
	args := []string{identity, millis(ttl), strconv.Itoa(maxNamed), strconv.Itoa(maxSignals), strconv.Itoa(len(leases)), k.Presence(identity)}
	return asking(heartbeatScript, slices.Concat(keys, leases, append(others[:1:1], k.Cancelled()), others[1:]), append(args, holds...),
		func(r reader) (HeartbeatReply, error) { return readHeartbeat(r, ttl, leases) })
}

// apart returns the watched leases, how long this process would hold each, and the keys that exist only if
// there is something to report: the signals come first.
func (k Keys) apart(identity string, watched []Watched) (leases, holds, others []string) {
	others = []string{k.Signals(identity)}
	for _, w := range watched {
		if w.Hold == 0 {
			others = append(others, w.Key)
			continue
		}
		leases, holds = append(leases, w.Key), append(holds, millis(w.Hold))
	}
	return leases, holds, others
}

func readHeartbeat(r reader, ttl time.Duration, leases []string) (reply HeartbeatReply, err error) {
	reply.State, reply.Now = State(r.text()), r.time()
	reply.Expiry = reply.Now.Truncate(time.Millisecond).Add(ttl)
	reply.Lapsed, reply.Signals = r.innerTexts(), r.innerTexts()
	reply.More = len(reply.Lapsed) >= maxNamed
	for _, at := range r.positions() {
		if at >= 0 && at < len(leases) {
			reply.Free = append(reply.Free, leases[at])
		}
	}
	reply.There, reply.Marked, reply.Subscribed = r.number(), r.text(), r.number()
	return reply, r.end()
}
