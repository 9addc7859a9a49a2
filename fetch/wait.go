package fetch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

const (
	// maxWait bounds one idle wait. A wait costs one command, so this is an idle queue's cost: a
	// quarter of a command a second.
	maxWait = 4 * time.Second
	// shortWait bounds waits on a server that cannot release them.
	shortWait = time.Second
	// pacedTake is how often takes look at queues where idle waits are not possible.
	pacedTake = 250 * time.Millisecond
	// minYield is how long waits first stay closed when Redis has too many clients. The time doubles with
	// each repetition, up to maxYield. Meanwhile paced takes replace the waits, with a delay of up to
	// pacedTake.
	minYield = 2 * time.Second
	maxYield = time.Minute
)

// waiting is the common state of the idle waits of a keyspace. While its capsule has an idle processor, each
// queue has one blocking move on a connection of its own, so that a job in any of many queues starts at once
// without polling.
type waiting struct {
	limit        time.Duration // of one wait
	rest         time.Duration // the pause after the next wait that fails; zero after a wait that succeeded
	noWaitsUntil time.Time

	tooManyClients bool          // Redis has refused a connection of this process: see yieldWaits
	yielded        bool          // no wait is opened before the next confirmed heartbeat
	yield          time.Duration // how long waits were closed the last time that Redis had too many clients
	yieldedAt      time.Time     // when waits were last closed for that reason
}

// A wait is one idle wait.
type wait struct {
	queue   *queueState
	session *Session
	waiter  driver.Waiter
	leaving bool        // its release has been requested
	shut    atomic.Bool // its connection must be closed
	cannot  atomic.Bool // the server cannot release it

	// returned is closed once the fields below are set.
	returned chan struct{}
	payload  string
	ok       bool
	err      error
}

// adjustWaits opens the waits that should be open now and releases those that should not.
func (k *Keyspace) adjustWaits(now time.Time) {
	if k.tooManyClients {
		k.tooManyClients = false
		k.yieldWaits(now)
	}
	switch {
	case k.loop.quiet:
		k.release()
		return
	case k.loop.quarantine.aside():
		k.release()
		k.readQueuesAgain()
		return
	case k.reconcile.unsure:
		k.release() // nothing may enter our lists before their contents are known
		return
	}
	if k.yielded && !now.Before(k.noWaitsUntil) {
		k.noWaitsUntil = now.Add(pacedTake) // the heartbeat comes first; until then queues are polled
	}
	for _, in := range k.intakes {
		in.adjustWaits(now)
	}
}

// adjustWaits releases the waits without a processor, and opens the missing ones.
func (in *intake) adjustWaits(now time.Time) {
	k := in.space
	if in.capsule.idle()+in.capsule.reserved <= 0 {
		in.release()
		in.empty = false // the next idle processor must take first: no wait has watched the queues meanwhile
		return
	}
	missing := false
	for _, q := range in.queues {
		if q.paused {
			q.release()
		}
		missing = missing || q.lacksWait()
	}
	if !missing || k.fenced || k.session == nil || now.Before(k.noWaitsUntil) {
		return
	}
	// After an outage a pipeline goes first, so that not every wait fails while Redis is still away.
	if in.capsule.reserved > 0 || !k.outage.since.IsZero() {
		return
	}
	// A take comes first, unless every idle processor has an open wait already. Waits that are being
	// released will be gone in a moment.
	if !in.empty && (in.spare() > 0 || in.leaving()) || !k.session.Leased() {
		return
	}
	for _, q := range in.queues {
		if q.lacksWait() {
			k.open(q)
		}
	}
}

// lacksWait reports whether the queue has no open wait and may have one.
func (q *queueState) lacksWait() bool {
	return q.wait == nil && !q.paused && !q.broken && q.backOffUntil.IsZero()
}

// open opens the idle wait of a queue.
func (k *Keyspace) open(q *queueState) {
	if q.waiter == nil {
		var err error
		if q.waiter, err = k.Client.Waiter(); err != nil {
			k.restWaits(err)
			return
		}
	}
	session := k.session
	w := &wait{queue: q, session: session, waiter: q.waiter, returned: make(chan struct{})}
	k.begin()
	q.wait, q.waiter = w, nil
	q.intake.waits++
	// A wait that outlives the session would move a job into the list of a process that does not exist.
	limit := min(k.limit, session.record.TTL-session.record.Beat)
	from, to := k.Keys.Queue(q.name), k.Keys.Working(q.name, session.Identity)
	go func() {
		w.payload, w.ok, w.err = w.waiter.Wait(context.Background(), from, to, limit)
		close(w.returned)
		k.loop.events <- w
	}()
}

// release ends all waits. It repeats the request for each wait until the wait's reply has been read, because a
// release that reaches Redis before its wait has no effect.
func (k *Keyspace) release() {
	for _, in := range k.intakes {
		in.release()
	}
}

func (in *intake) release() {
	if in.waits == 0 {
		return
	}
	for _, q := range in.queues {
		q.release()
	}
}

func (q *queueState) release() {
	if q.wait != nil && !q.wait.leaving {
		q.wait.leaving = true
		go q.wait.leave()
	}
}

// leaving reports whether the end of a wait was requested and the wait has not ended yet.
func (in *intake) leaving() bool {
	return slices.ContainsFunc(in.queues, func(q *queueState) bool { return q.wait != nil && q.wait.leaving })
}

func (w *wait) leave() {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-w.returned:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := w.waiter.Release(ctx)
		cancel()
		if err != nil && w.shut.Load() {
			_ = w.waiter.Close() // a job that it may have moved is in our list, where reconciling finds it
			return
		}
		if errors.Is(err, driver.ErrNoRelease) {
			w.cannot.Store(true)
			return
		}
		select {
		case <-w.returned:
			return
		case <-time.After(pause):
		}
	}
}

// handle processes the end of a wait.
func (w *wait) handle() {
	q, k := w.queue, w.queue.intake.space
	q.wait = nil
	q.intake.waits--
	k.operations--
	if w.shut.Load() {
		_ = w.waiter.Close() // nothing waits on it
	} else {
		q.waiter = w.waiter
	}
	if w.cannot.Load() {
		k.limit = shortWait
	}
	if w.err != nil {
		k.failWait(w)
		return
	}
	k.succeed()
	k.rest = 0
	if w.ok {
		k.arriveByWait(w)
	}
}

// failWait handles a failed wait. If the wait has moved a job, the job is in our list, where reconciling finds
// it.
func (k *Keyspace) failWait(w *wait) {
	k.reconcile.due = true
	k.doubt(w.session, w.err)
	now := time.Now()
	var refused *driver.ServerError
	switch {
	case w.shut.Load():
		// This process has closed the connection itself.
	case driver.TooManyClients(w.err):
		k.tooManyClients = true
	case errors.As(w.err, &refused) && (refused.Code == "OOM" || refused.Code == "NOPERM"):
		// A full Redis refuses blocking moves but not our scripts, and so does a Redis whose operator forbids
		// blocking moves. The operator chose the latter, so only a full Redis is reported.
		if refused.Code == "OOM" {
			k.cfg.Reporter.Refuse("wait", w.err)
		}
		k.paceTakes(now.Add(maxWait), now)
	case errors.As(w.err, &refused) && refused.Code == "WRONGTYPE":
		w.queue.intake.empty = false // the take names the key
		k.paceTakes(now.Add(pacedTake), now)
	default:
		k.restWaits(w.err)
	}
}

// yieldWaits closes the connections of all idle waits when Redis has refused this process a connection. They
// stay closed for a while, and until a heartbeat is confirmed. Meanwhile paced takes poll the queues: they can
// replace a wait, but nothing replaces a heartbeat or a settle.
func (k *Keyspace) yieldWaits(now time.Time) {
	k.readQueuesAgain()
	if k.yielded && now.Before(k.yieldedAt.Add(k.yield)) {
		return // another refusal of the same moment
	}
	if now.Sub(k.yieldedAt) < k.yield+maxYield {
		k.yield = min(2*k.yield, maxYield)
	} else {
		k.yield = minYield
		k.cfg.Log.Warn("max number of clients reached; polling instead of idle waits", "waits", k.waiters())
	}
	k.yielded, k.yieldedAt = true, now
	k.paceTakes(now.Add(k.yield), now.Add(pacedTake))
	for _, q := range k.queues {
		if q.waiter != nil {
			_ = q.waiter.Close() // nothing waits on it
			q.waiter = nil
		}
		if q.wait != nil {
			q.wait.shut.Store(true)
			q.release()
		}
	}
}

// waiters returns how many connections the idle waits have.
func (k *Keyspace) waiters() (count int) {
	for _, q := range k.queues {
		if q.wait != nil || q.waiter != nil {
			count++
		}
	}
	return count
}

// restWaits opens no waits for a while after one failed. The failure does not mean that Redis is away: each
// wait has a connection of its own, which a proxy may cut, or which a server with too many clients may refuse.
// A take is sent at once to find out, and paced takes replace the waits until they are tried again.
func (k *Keyspace) restWaits(err error) {
	now := time.Now()
	k.readQueuesAgain()
	if now.Before(k.noWaitsUntil) {
		return // another one of the same moment
	}
	if 2*k.rest >= maxWait && k.rest < maxWait {
		k.cfg.Log.Warn("idle waits keep failing; polling instead", "error", err)
	}
	k.rest = min(max(2*k.rest, link.FirstRest), maxWait)
	k.paceTakes(now.Add(k.rest), now.Add(pacedTake))
}

// arriveByWait adds the job that a wait brought to the ledger. If no processor can run it now, it is requeued.
func (k *Keyspace) arriveByWait(w *wait) {
	in := w.queue.intake
	// More jobs may follow this one, so processors without an open wait need a take.
	in.empty = in.spare() <= 1
	if len(w.payload) > k.cfg.Largest {
		// Redis has its bytes already. Sent again, they would not arrive in time over a slow link.
		k.addLarge(w.session, place{queue: w.queue.name}, lua.LargeOf(w.payload))
		return
	}
	// Promised processors are not idle: a take for them is in flight.
	wanted := w.session == k.session && !k.session.Over() && !w.queue.paused && w.queue.backOffUntil.IsZero() && in.capsule.idle() > 0
	k.bring(w.session, w.queue.name, w.payload, wanted)
}

func (k *Keyspace) closeWaits() {
	for _, q := range k.queues {
		if q.waiter != nil {
			_ = q.waiter.Close() // nothing waits on it
		}
		if q.wait != nil {
			_ = q.wait.waiter.Close() // a job that it still moves is found by other processes
		}
	}
}
