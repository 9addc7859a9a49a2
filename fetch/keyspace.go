package fetch

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// A Space is the location of a keyspace.
type Space struct {
	// Name is the name of the shard, which the log lines about it carry; "" if the process has no shards.
	Name   string
	Client driver.Client
	Keys   lua.Keys
	Clock  *lua.Clock
	// Reporter reports the outages of this Redis. Default: a new one that writes to the log of the loop.
	Reporter *link.Reporter
	// TooManyClients, if set, is called when this Redis has refused the loop a connection. It must not block.
	TooManyClients func()
}

// A Keyspace is the state of the loop for one keyspace: its session there, its queues, the pipelines in
// flight, and whether its Redis answers. If the Redis of one keyspace does not answer, the others continue. Its
// exported methods may be called from any goroutine.
type Keyspace struct {
	Space
	loop    *Loop
	cfg     *Config
	log     *slog.Logger
	report  *link.Reporter
	ledger  ledger
	session *Session                                 // nil before the first
	former  []*Session                               // earlier sessions that still had runs when the next one began
	index   int                                      // in Loop.spaces
	fenced  bool                                     // the last take was refused: the session has lapsed, or holds a quarantined job; until the next heartbeat
	gate    atomic.Pointer[func(*job.Job) *lua.Gate] // see SetGate; nil for none
	lease   lease
	renew   bool // the locks of the runs must be renewed

	intakes   []*intake // one for each share
	queues    map[string]*queueState
	named     atomic.Pointer[[]string] // see names
	backedOff int                      // number of queues that are backed off
	doubtedAt time.Time                // when a call last failed that may have brought a job
	waiting

	flights
	unacked   []*batch       // settles without a reply
	blockedAt time.Time      // when the blocked runs are settled again
	obsolete  []string       // jids of settled jobs whose left-over positions can be deleted
	large     []lua.TooLarge // entries of our lists that are too large to be runs
	reconcile reconcile
	outage    outage

	idleSession     atomic.Pointer[Session] // the session while it is idle, else nil
	skippedReadings int                     // heartbeats in a row that have replaced a reading of the lengths
}

func newKeyspace(l *Loop, at Space) (*Keyspace, error) {
	lane, err := at.Client.Lane(maxInFlight)
	if err != nil {
		return nil, err
	}
	cfg, log := &l.cfg, l.cfg.Log
	if at.Name != "" {
		log = log.With("shard", at.Name)
	}
	report := at.Reporter
	if report == nil {
		report = link.NewReporter(log)
	}
	k := &Keyspace{
		flights: flights{
			link:   &link.Link{Client: lane, Round: cfg.CallTimeout, Largest: cfg.Largest, Log: log, Duty: jobs},
			outbox: make(chan *pipeline, maxInFlight), closed: make(chan struct{}),
		},
		Space: at, loop: l, cfg: cfg, log: log, report: report, index: len(l.spaces),
		ledger: newLedger(l.Concurrency()), queues: make(map[string]*queueState), reconcile: newReconcile(),
		waiting: newWaiting(),
	}
	for _, s := range l.shares {
		in := newIntake(k, s)
		s.intakes, k.intakes = append(s.intakes, in), append(k.intakes, in)
	}
	return k, nil
}

// Enter makes the loop take jobs under this session from now on. Runs of an earlier session are still settled
// under the earlier one.
func (k *Keyspace) Enter(session *Session) { k.loop.requests <- func() { k.enter(session) } }

// Beaten passes the reply of a confirmed heartbeat to the loop.
func (k *Keyspace) Beaten(reply HeartbeatReply) { k.loop.give(func() { k.handleHeartbeat(reply) }) }

// SetGate sets the function that returns the gate of a job; nil for most. The loop calls it for each job that
// it takes here from now on, so it must return at once and never panic. With nil, as before the first call,
// jobs have no gate, and no payload is parsed for it. SetGate may be called at any time.
func (k *Keyspace) SetGate(gate func(j *job.Job) *lua.Gate) {
	if gate == nil {
		k.gate.Store(nil)
		return
	}
	k.gate.Store(&gate)
}

// YieldWaits makes the loop close the waits here, because this Redis refused the process a connection.
func (k *Keyspace) YieldWaits() { k.loop.give(func() { k.tooManyClients = true }) }

func (k *Keyspace) enter(session *Session) {
	k.former = slices.DeleteFunc(append(k.former, k.session), func(s *Session) bool { return s == nil || s.held == 0 })
	k.session, k.fenced, k.reconcile = session, false, newReconcile()
	k.readQueuesAgain()
	k.loop.quarantine.forget(k)
	k.release()
	k.abandon()
}

// unsettled reports whether this process can still do something for its jobs here: a settle is not confirmed,
// or a wait is open that may bring a job. Blocked runs do not count, because Redis refuses them.
func (k *Keyspace) unsettled() bool {
	return k.inFlight > 0 || k.openWaits() > 0 || len(k.unacked) > 0 || len(k.reconcile.orphaned) > 0 || len(k.large) > 0 ||
		k.ledger.count(awaitingStart, ready, running, abandoned, returned, finished, unsent, isolated) > 0
}

// leaveUnstarted removes the runs from the ledger that have not begun, because Redis is away, if the session
// has no lease any more. They occupy processors that other keyspaces need. The jobs stay in their working
// lists, where reconciling finds them.
func (k *Keyspace) leaveUnstarted() {
	for _, waiting := range []state{awaitingStart, ready} {
		for r := range k.ledger.in(waiting) {
			if (waiting == ready || !r.undoStart) && !k.leased(r.Session) {
				k.drop(r)
				k.loop.freed = true
			}
		}
	}
}

// wait opens and releases idle waits. It returns the latest instant at which the keyspace must have its next
// turn; zero if there is none.
func (k *Keyspace) wait(now time.Time) time.Time {
	if k.outage.resting(now) {
		return k.outage.until
	}
	k.adjustWaits(now)
	if k.isIdle() {
		k.idleSession.Store(k.session)
	} else {
		k.idleSession.Store(nil)
	}
	return earlier(k.wake(now), k.endBackOffs(now))
}

// wake returns the next instant at which something is due without an event.
func (k *Keyspace) wake(now time.Time) time.Time {
	var at time.Time
	if resting := now.Before(k.noWaitsUntil); !k.loop.quiet {
		for _, in := range k.intakes {
			switch {
			case in.empty && in.polls():
				at = earlier(at, in.pacedAt)
			case in.empty && resting:
				at = earlier(at, earlier(in.pacedAt, k.noWaitsUntil))
			case in.waits == 0 && in.rests(now):
				at = earlier(at, in.lookAt)
			}
		}
		if !at.IsZero() && !at.After(now) {
			at = now.Add(pacedTake) // there is a reason not to take now; it ends with an event or with the next heartbeat
		}
	}
	if k.ledger.count(blocked) > 0 {
		at = earlier(at, k.blockedAt)
	}
	return earlier(earlier(at, k.lateAt(now)), k.loop.quarantine.wake())
}

func (k *Keyspace) close() error {
	k.closeWaits()
	k.closeOnce.Do(func() { close(k.closed) }) // the outbox stays: a process that must end may close beside its loop
	return k.link.Close()
}
