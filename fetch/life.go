package fetch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// ErrOwnershipLost is the cause with which handlers are cancelled when their process has been declared dead: the job
// belongs to somebody else by now.
var ErrOwnershipLost = errors.New("belay: ownership lost: this process was declared dead and its jobs were recovered")

// A Life is one identity from its registration to its tombstone. A process that is declared dead lives on under a new
// one; what it had in hand is still settled under the old.
type Life struct {
	// Identity is the name: host, pid and 12 random hex digits.
	Identity string
	// Context ends, with the cause ErrOwnershipLost, when the identity has been declared dead. Handlers run under it.
	Context context.Context

	record lua.Record
	end    context.CancelCauseFunc
	// confirmedAt is when, since boot, the last beat that was answered had been sent.
	confirmedAt atomic.Int64
	over        atomic.Bool
	// aloneQueue is the queue of the last quarantined job that was taken, as the record has it.
	aloneQueue atomic.Pointer[string]

	// What follows is confined to the Fetcher's goroutine.
	held   []*Held
	alike  map[uint64]int // how many jobs in hand have this hash
	left   int            // how many jobs have left our hands
	alone  *Held          // the quarantined job, if any: then it is the only one in hand
	seq    int64          // of the last job taken
	number int64          // of the last batch composed
	unread []*batch       // batches whose reply has not been read, by ascending number
}

// A Held is one job in hand: taken, and not yet confirmed as settled.
type Held struct {
	Bytes string
	Queue string
	// Life is the session under which it was taken; its Context is the run's.
	Life *Life

	owner   *Life  // the session that has it in its list: Life, or a later one that took it again
	sum     uint64 // of Bytes
	alone   bool   // quarantined, in the alone list
	at      int    // index in owner.held
	seq     int64  // rises with every job its owner takes
	phase   phase
	outcome job.Outcome
	lock    *heldLock // what its payload says of a lock; nil for nearly all
}

// JID is the job's id; empty for one that cannot be read, which never runs.
func (h *Held) JID() string {
	parsed, err := job.Parse(h.Bytes)
	if err != nil {
		return ""
	}
	return parsed.JID()
}

// phase is how far a job in hand has come.
type phase int

const (
	phaseReady   phase = iota // taken, waits for its processor, or first for its start to be known
	phaseRunning              // given to a processor
	phaseEnded                // its run has ended, not yet sent
	phaseSent                 // its settle is under way or owed
	phaseStuck                // Redis refuses its settle for a reason that waiting does not cure
	phaseGone                 // not in hand any more
)

// NewIdentity draws a name that nobody had: host (this machine's when empty), pid and 12 random hex digits. Colons in
// the host become dashes, because Ruby's readers split names at colons.
func NewIdentity(host string) string {
	if host == "" {
		host, _ = os.Hostname()
	}
	host = strings.Map(func(r rune) rune {
		if r == ':' || r <= ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, host)
	if host == "" {
		host = "unknown"
	}
	var nonce [6]byte
	_, _ = rand.Read(nonce[:]) // never fails: the runtime ends the process instead
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(nonce[:]))
}

// Register brings a new identity to life. parent ends with the process' last handler.
func Register(parent context.Context, ctx context.Context, client driver.Client, keys lua.Keys, clock *lua.Clock, host string, record lua.Record) (*Life, error) {
	for {
		identity := NewIdentity(host)
		sentAt, sentSinceBoot := time.Now(), lua.SinceBoot()
		answer, err := keys.Register(identity, record).Do(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("register %s: %w", identity, err)
		}
		if !answer.OK {
			continue
		}
		clock.Saw(answer.Now, sentAt, time.Now())
		return newLife(parent, identity, record, sentSinceBoot), nil
	}
}

func newLife(parent context.Context, identity string, record lua.Record, confirmedAt time.Duration) *Life {
	life := &Life{Identity: identity, record: record, alike: make(map[uint64]int)}
	life.Context, life.end = context.WithCancelCause(parent)
	life.confirm(confirmedAt)
	return life
}

// restore writes the session's record again after it was deleted or evicted. It returns false if Redis
// refused.
func (l *Life) restore(ctx context.Context, client driver.Client, keys lua.Keys) (bool, error) {
	record := l.record
	if queue := l.aloneQueue.Load(); queue != nil {
		record.QuarantineQueue = *queue
	}
	sentSinceBoot := lua.SinceBoot()
	answer, err := keys.Register(l.Identity, record).Do(ctx, client)
	if err != nil {
		return false, fmt.Errorf("restore the record of %s: %w", l.Identity, err)
	}
	if answer.OK {
		l.confirm(sentSinceBoot)
	}
	return answer.OK, nil
}

// Beat keeps the life alive and answers what Redis says of it, and of what is watched: see Fetcher.Watched. A life that is
// dead or unknown stays so: beat no more and register another.
func (l *Life) Beat(ctx context.Context, client driver.Client, keys lua.Keys, clock *lua.Clock, watched ...string) (Pulse, error) {
	sentAt, sentSinceBoot := time.Now(), lua.SinceBoot()
	pulse, err := keys.Heartbeat(l.Identity, l.record.TTL, watched...).Do(ctx, client)
	if err != nil {
		return Pulse{}, err
	}
	clock.Saw(pulse.Now, sentAt, time.Now())
	restored := false
	if pulse.State == lua.StateUnrecorded {
		if restored, err = l.restore(ctx, client, keys); err != nil {
			return Pulse{}, err
		}
		if pulse.State = lua.StateUnknown; restored {
			pulse.State = lua.StateAlive
		}
	}
	switch pulse.State {
	case lua.StateAlive:
		l.confirm(sentSinceBoot)
	case lua.StateDead:
		l.over.Store(true)
		l.end(ErrOwnershipLost)
	default:
		// Redis has lost its data: nobody else has the jobs either, so their handlers may as well finish.
		l.over.Store(true)
	}
	return Pulse{HeartbeatReply: pulse, SentAt: sentSinceBoot, rtt: lua.SinceBoot() - sentSinceBoot, watched: len(watched) > 0, Restored: restored}, nil
}

// A Pulse is the answer to a beat, with the instant it was sent.
type Pulse struct {
	lua.HeartbeatReply
	// Restored reports that the session's record had been lost and that the heartbeat restored it.
	Restored bool
	// SentAt is when it was sent, since boot.
	SentAt  time.Duration
	rtt     time.Duration
	watched bool
}

// RTT is how long the beat's answer took.
func (p Pulse) RTT() time.Duration { return p.rtt }

func (l *Life) confirm(sentSinceBoot time.Duration) { l.confirmedAt.Store(int64(sentSinceBoot)) }

// Leased says whether a job may be started now: the last confirmed beat is so recent that nobody can have declared this
// life dead, one beat's margin included.
func (l *Life) Leased() bool {
	age := lua.SinceBoot() - time.Duration(l.confirmedAt.Load())
	return !l.over.Load() && age < l.record.TTL-l.record.Beat
}

// Formerly is the identity that the process had before this life; empty for the first.
func (l *Life) Formerly() string { return l.record.Formerly }

// Over says whether the identity will never beat again.
func (l *Life) Over() bool { return l.over.Load() }

// take notes a job in hand.
func (l *Life) take(queue, bytes string) *Held {
	held := &Held{Bytes: bytes, Queue: queue, Life: l, sum: sumOf(bytes)}
	l.add(held)
	return held
}

func (l *Life) add(held *Held) {
	l.seq++
	held.owner, held.at, held.seq = l, len(l.held), l.seq
	l.held = append(l.held, held)
	l.alike[held.sum]++
}

// drop takes a job out of hand.
func (l *Life) drop(held *Held) {
	l.remove(held)
	held.phase = phaseGone
}

func (l *Life) remove(held *Held) {
	if l.alone == held {
		l.alone = nil
	}
	last := len(l.held) - 1
	l.held[held.at] = l.held[last]
	l.held[held.at].at = held.at
	l.held[last] = nil
	l.held = l.held[:last]
	if l.alike[held.sum]--; l.alike[held.sum] == 0 {
		delete(l.alike, held.sum)
	}
}

// adopt transfers a job in hand from an earlier session to this one.
func (l *Life) adopt(held *Held) {
	held.owner.remove(held)
	l.add(held)
}

// find returns the job in hand with these bytes and from this queue, or nil. Usually there is none, and the
// cost is one hash of the bytes.
func (l *Life) find(queue, bytes string) *Held {
	if l.alike[sumOf(bytes)] == 0 {
		return nil
	}
	for _, held := range l.held {
		if held.Bytes == bytes && held.Queue == queue && !held.alone {
			return held
		}
	}
	return nil
}

// runsUnder returns the run of a job with these bytes and from this queue that continues under an earlier
// session that Redis has lost, or nil. (A run of a session that was declared dead is cancelled, and its
// result is discarded.)
func (f *Fetcher) runsUnder(queue, bytes string) *Held {
	for _, life := range f.former {
		held := life.find(queue, bytes)
		if held != nil && life.Context.Err() == nil && (held.phase == phaseRunning || held.phase == phaseEnded) {
			return held
		}
	}
	return nil
}

func sumOf(bytes string) uint64 { return maphash.String(seed, bytes) }

var seed = maphash.MakeSeed()

// mark is the lowest number whose answer has not been read.
func (l *Life) mark() int64 {
	if len(l.unread) > 0 {
		return l.unread[0].number
	}
	return l.number + 1
}

// mayNumber says whether Redis keeps the verdict of one more batch.
func (l *Life) mayNumber() bool { return l.number-l.mark()+1 < lua.MostUnread }

// read notes that the batch's answer has been read, or that none will come that matters.
func (l *Life) read(b *batch) {
	for i, unread := range l.unread {
		if unread == b {
			l.unread = append(l.unread[:i], l.unread[i+1:]...)
			return
		}
	}
}
