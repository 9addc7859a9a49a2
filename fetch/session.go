package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// ErrOwnershipLost is the cause with which handlers are cancelled when their process was declared dead:
// another process has the job.
var ErrOwnershipLost = errors.New("belay: ownership lost: this process was declared dead and its jobs were recovered")

// A Session is the registration of this process in one keyspace: one identity, until its tombstone. A process
// that was declared dead registers a new session; the runs of the earlier session are still settled under the
// earlier one.
type Session struct {
	// Identity is host, pid and 12 random hex digits.
	Identity string
	// Context ends, with the cause ErrOwnershipLost, when the identity has been declared dead. Handlers run
	// under it.
	Context context.Context

	record lua.Record
	// queues are what the record names of the queues, or, while a change is in flight, what it may name.
	queues atomic.Pointer[namedQueues]
	end    context.CancelCauseFunc
	// confirmedAt is when the last heartbeat that got a reply was sent, since boot.
	confirmedAt atomic.Int64
	over        atomic.Bool
	// watched: its absence may declare it dead; see Watch.
	watched atomic.Bool
	// quarantineQueue is the queue of the last quarantined job that was taken, as the record has it.
	quarantineQueue atomic.Pointer[string]

	// calm is the last heartbeat, if the next one may do without a script: nil after one that failed, and after
	// one that found something. prolonged is how many have done without in a row. Both are confined to the
	// goroutine that calls Beat.
	calm      *HeartbeatReply
	prolonged int

	// The fields below are confined to the loop's goroutine.
	seq         int64    // number of the last run; a run's number is drawn here and never used again
	held        int      // runs in the ledger
	left        int      // runs that have left the session's lists
	quarantined *Run     // the quarantined job, if any: then it is the only run
	number      int64    // number of the last settle
	unread      []*batch // settles whose reply has not been read, by ascending number
}

// namedQueues are the queues that a record names after this many changes.
type namedQueues struct {
	names    []string
	revision int64
}

// NewIdentity returns a new identity: host (this machine's if it is empty), pid and 12 random hex digits.
// Colons in the host become dashes, because Ruby's readers split names at colons.
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
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), job.NewJID()[:12]) // a jid is random hex digits
}

// Register begins a session under a new identity. parent must live until the process' last handler has ended.
func Register(parent context.Context, ctx context.Context, client driver.Client, keys lua.Keys, clock *lua.Clock, host string, record lua.Record) (*Session, error) {
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
		return newSession(parent, identity, record, sentSinceBoot), nil
	}
}

func newSession(parent context.Context, identity string, record lua.Record, confirmedAt time.Duration) *Session {
	session := &Session{Identity: identity, record: record}
	session.queues.Store(&namedQueues{names: record.Queues})
	session.Context, session.end = context.WithCancelCause(parent)
	session.confirm(confirmedAt)
	return session
}

// restore writes the session's record again after it was deleted or evicted. It returns false if Redis
// refused.
func (s *Session) restore(ctx context.Context, client driver.Client, keys lua.Keys) (bool, error) {
	record, named := s.record, s.queues.Load()
	record.Queues, record.Revision = named.names, named.revision
	if queue := s.quarantineQueue.Load(); queue != nil {
		record.QuarantineQueue = *queue
	}
	sentSinceBoot := lua.SinceBoot()
	answer, err := keys.Register(s.Identity, record).Do(ctx, client)
	if err != nil {
		return false, fmt.Errorf("restore the record of %s: %w", s.Identity, err)
	}
	if answer.OK {
		s.confirm(sentSinceBoot)
	}
	return answer.OK, nil
}

// Serve makes the session's record name these queues, and no more those that have left. It reports whether
// the record does: not if the session has ended or has lost its record, nor while a list of a queue that has
// left holds a job. Then, and after an error, the record may name the queues of both. One goroutine at a time
// may call it.
func (s *Session) Serve(ctx context.Context, client driver.Client, keys lua.Keys, queues, left []string) (bool, error) {
	revision := s.queues.Load().revision + 1
	// Before the call: a heartbeat that restores the record meanwhile must name every queue that is taken from
	// when the reply to this call has come. The number rises also if the call fails, because it may be executed
	// late.
	s.queues.Store(&namedQueues{append(slices.Clone(queues), left...), revision})
	word, err := keys.Serve(s.Identity, queues, left, revision).Do(ctx, client)
	if err != nil {
		return false, fmt.Errorf("name the queues of %s: %w", s.Identity, err)
	}
	if word != lua.ServeServed {
		return false, nil
	}
	s.queues.Store(&namedQueues{queues, revision})
	return true, nil
}

func (s *Session) confirm(sentSinceBoot time.Duration) { s.confirmedAt.Store(int64(sentSinceBoot)) }

// Watch must be called before the session subscribes to its channel. From then on the absence of the
// subscription may declare it dead, so its lease is shorter, for good: a watcher may have seen it present.
func (s *Session) Watch() { s.watched.Store(true) }

// Formerly returns the identity that the process had before this session; "" for the first session.
func (s *Session) Formerly() string { return s.record.Formerly }

// Over reports whether the session has ended for good.
func (s *Session) Over() bool { return s.over.Load() }

// mark returns the lowest number of a settle whose reply has not been read.
func (s *Session) mark() int64 {
	if len(s.unread) > 0 {
		return s.unread[0].number
	}
	return s.number + 1
}

// mayNumber reports whether Redis keeps the verdict of one more settle.
func (s *Session) mayNumber() bool { return s.number-s.mark()+1 < lua.MaxUnread }

// read records that the settle's reply has been read, or that its reply does not matter any more.
func (s *Session) read(b *batch) {
	s.unread = slices.DeleteFunc(s.unread, func(unread *batch) bool { return unread == b })
}
