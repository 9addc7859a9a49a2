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
	// trickle is how far apart jobs come, besides trickleTrips round trips, that come one by one. With much
	// less, a producer that pushes many jobs one after the other would look like that; with much more, a take
	// that finds nothing would follow each job at fifty a second.
	trickle = 10 * time.Millisecond
	// trickleTrips: a job that was there before its wait comes after one round trip. Four, because a busy
	// process notices it later; at one, a slow link would bring all jobs one by one.
	trickleTrips = 4
	// manyFailures is after how many failed waits in a row the log says so: after a few seconds.
	manyFailures = 8
	// firstYield and maxYield bound how long waits stay closed when Redis has too many clients.
	firstYield = 4 * time.Second
	maxYield   = time.Minute
)

// waiting is the common state of the idle waits of a keyspace. While its share has an idle processor, each
// queue has one blocking move on a connection of its own, so that a job in any of several queues starts at once
// without polling. With more than lua.MaxWaits queues the others are read by paced takes, with a delay of up to
// pacedTake. If waits are not possible, whatever the reason, they rest, and paced takes replace them too.
// Each further failure makes the rest longer.
type waiting struct {
	limit        time.Duration   // of one wait
	noWaitsUntil time.Time       // when the rest ends
	rest         link.Backoff    // after waits that failed
	failures     int             // waits in a row that failed
	waiters      []driver.Waiter // connections between two waits

	tooManyClients bool         // another call was refused a connection: see yieldWaits
	yielded        bool         // no wait is opened before the next confirmed heartbeat
	yields         link.Backoff // how long the waits stay closed for that reason
	yieldEnds      time.Time
}

func newWaiting() waiting {
	return waiting{limit: maxWait, rest: link.Backoff{Max: maxWait}, yields: link.Backoff{First: firstYield, Max: maxYield}}
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
	if in.share.idle()+in.share.reserved <= 0 {
		in.release()
		in.empty = false // the next idle processor must take first: no wait has watched the queues meanwhile
		return
	}
	missing := false
	for _, q := range in.queues {
		if q.paused || !q.backOffUntil.IsZero() {
			q.release()
		}
		missing = missing || q.lacksWait()
	}
	if !missing || in.waits >= in.quota || k.fenced || k.session == nil || now.Before(k.noWaitsUntil) {
		return
	}
	// After an outage a pipeline goes first, so that not every wait fails while Redis is still away.
	if in.reserved > 0 || k.outage.away {
		return
	}
	if in.share.idle() <= 0 { // takes of other keyspaces have all processors, and no wait watches these queues
		in.empty = in.empty && in.rests(now)
		return
	}
	// A take comes first, unless every idle processor has an open wait already. Waits that are being
	// released will be gone in a moment.
	if !in.empty && (in.spare() > 0 || in.leaving()) || !k.session.Leased() {
		return
	}
	for _, q := range in.queues {
		if in.waits >= in.quota || q.lacksWait() && !k.open(q) {
			return
		}
	}
}

// lacksWait reports whether the queue has no open wait and may have one.
func (q *queueState) lacksWait() bool {
	return q.wait == nil && !q.paused && !q.broken && !q.leaving && q.backOffUntil.IsZero()
}

// open opens the idle wait of a queue. It returns false if there is no connection for it.
func (k *Keyspace) open(q *queueState) bool {
	if len(k.waiters) == 0 {
		waiter, err := k.Client.Waiter()
		if err != nil {
			k.failWaits(err)
			return false
		}
		k.waiters = append(k.waiters, waiter)
	}
	last := len(k.waiters) - 1
	session := k.session
	w := &wait{queue: q, session: session, waiter: k.waiters[last], returned: make(chan struct{})}
	k.waiters = k.waiters[:last]
	k.begin()
	q.wait = w
	q.intake.waits++
	// A wait that outlives the session would move a job into the list of a process that does not exist.
	limit := min(k.limit, session.record.TTL-session.record.Beat)
	from, to := k.Keys.Queue(q.name), k.Keys.Working(q.name, session.Identity)
	go func() {
		w.payload, w.ok, w.err = w.waiter.Wait(context.Background(), from, to, limit)
		close(w.returned)
		k.loop.events <- w
	}()
	return true
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
	pauses := link.Backoff{First: time.Millisecond, Max: 100 * time.Millisecond}
	for {
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
		case <-time.After(pauses.Next()):
		}
	}
}

// handle processes the end of a wait.
func (w *wait) handle() {
	q, k := w.queue, w.queue.intake.space
	q.wait = nil
	q.intake.waits--
	k.operations--
	if w.shut.Load() || k.loop.waitConnections() >= lua.MaxWaits { // more than MaxWaits if another intake needs some of them
		_ = w.waiter.Close() // nothing waits on it
	} else {
		k.waiters = append(k.waiters, w.waiter)
	}
	if w.cannot.Load() {
		k.limit = shortWait
	}
	if w.err != nil {
		k.reconcile.due = true // if the wait has moved a job, the job is in our list, where reconciling finds it
		k.doubt(w.session, w.err)
		if !w.shut.Load() { // otherwise this process has closed the connection itself
			k.failWaits(w.err)
		}
		return
	}
	k.succeed()
	k.rest.Reset()
	k.failures = 0
	if w.ok {
		q.intake.found(true)
		k.arriveByWait(w)
	}
}

// failWaits makes the waits rest after one of them failed or could not be opened. The failure does not mean
// that Redis is away: each wait has a connection of its own, which a proxy may cut. The take that is sent at
// once finds that out. It also names a key of a wrong type, whose queue then has no wait any more.
func (k *Keyspace) failWaits(err error) {
	var refused *driver.ServerError
	full := driver.OutOfMemory(err)
	switch {
	case driver.TooManyClients(err):
		k.yieldWaits(time.Now())
	case time.Now().Before(k.noWaitsUntil):
		k.readQueuesAgain() // another failure of the same moment
	case full || errors.As(err, &refused) && refused.Code == "NOPERM":
		// A full Redis refuses blocking moves but not our scripts, and so does a Redis whose operator forbids
		// blocking moves. The operator chose the latter, so only a full Redis is reported.
		if full {
			k.report.Fail("wait", err)
		}
		k.restWaits(k.rest.Last())
	default:
		if k.failures++; k.failures == manyFailures {
			k.log.Warn("idle waits keep failing; polling instead", "error", err)
		}
		k.restWaits(k.rest.Next())
	}
}

// restWaits opens no waits for a while. Takes replace them, the first one at once.
func (k *Keyspace) restWaits(pause time.Duration) {
	now := time.Now()
	k.noWaitsUntil = now.Add(pause)
	for _, in := range k.intakes {
		in.empty, in.pacedAt = false, now.Add(pacedTake)
	}
}

// yieldWaits closes the connections of all idle waits when Redis has refused this process a connection. They
// stay closed for a while, and until a heartbeat is confirmed: takes can replace a wait, but nothing replaces
// a heartbeat or a settle. The next time within maxYield they stay closed for longer.
func (k *Keyspace) yieldWaits(now time.Time) {
	k.readQueuesAgain()
	k.yielded = true
	if now.Before(k.yieldEnds) {
		return // another refusal of the same moment
	}
	if now.After(k.yieldEnds.Add(maxYield)) {
		k.yields.Reset()
		k.log.Warn("new connections are refused (max number of clients?); polling instead of idle waits", "waits", k.waitConnections())
	}
	pause := k.yields.Next()
	k.yieldEnds = now.Add(pause)
	k.restWaits(pause)
	k.closeWaiters()
	for _, q := range k.queues {
		if q.wait != nil {
			q.wait.shut.Store(true)
			q.release()
		}
	}
}

// waitConnections returns how many connections the idle waits have.
func (k *Keyspace) waitConnections() int { return len(k.waiters) + k.openWaits() }

// waitConnections returns how many connections the idle waits of all keyspaces have.
func (l *Loop) waitConnections() (count int) {
	for _, k := range l.spaces {
		count += k.waitConnections()
	}
	return count
}

// closeWaiters closes the connections on which nothing waits.
func (k *Keyspace) closeWaiters() {
	for _, waiter := range k.waiters {
		_ = waiter.Close()
	}
	k.waiters = nil
}

// arriveByWait adds the job that a wait brought to the ledger. If no processor can run it now, it is requeued.
func (k *Keyspace) arriveByWait(w *wait) {
	in := w.queue.intake
	// More jobs may follow this one, so processors without an open wait need a take.
	trickles := in.trickles(time.Now())
	in.empty = in.spare() <= 1 || trickles
	if len(w.payload) > k.cfg.Largest {
		// Redis has its bytes already. Sent again, they would not arrive in time over a slow link.
		k.addLarge(w.session, ownList{queue: w.queue.name}, lua.LargeOf(w.payload))
		return
	}
	// Reserved processors are not idle: a take for them is in flight.
	wanted := w.session == k.session && !k.session.Over() && !w.queue.paused && !w.queue.leaving &&
		w.queue.backOffUntil.IsZero() && in.share.idle() > 0
	k.bring(w.session, w.queue.name, w.payload, wanted)
}

// trickles records that a wait has brought a job, and reports whether the next wait can follow without a take:
// jobs come one by one, and the takes after them have found nothing. Each queue has a wait then, so it does not
// matter which one the next job is in. If several jobs come after all, the second one shows it, and those that
// follow start a round trip later than by a take after the first.
func (in *intake) trickles(now time.Time) bool {
	before := in.loneAt
	in.loneAt = now
	return in.empty && !in.polls() && !before.IsZero() && now.Sub(before) > trickle+trickleTrips*in.space.link.RoundTrip()
}

func (k *Keyspace) closeWaits() {
	k.closeWaiters()
	for _, q := range k.queues {
		if q.wait != nil {
			_ = q.wait.waiter.Close() // a job that it still moves is found by other processes
		}
	}
}
