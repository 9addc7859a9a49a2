package fetch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

const (
	// longestWait bounds one idle wait. A wait costs one command, so this is an idle queue's cost: a
	// quarter of a command a second.
	longestWait = 4 * time.Second
	// shortWait bounds waits on a server that cannot release them.
	shortWait = time.Second
	// pacedTake is how often takes look at queues where idle waits are not possible.
	pacedTake = 250 * time.Millisecond
	// leastYield is how long waits first stay closed when Redis has too many clients. The time doubles with
	// each repetition, up to mostYield. Meanwhile paced takes replace the waits, with a delay of up to
	// pacedTake.
	leastYield = 2 * time.Second
	mostYield  = time.Minute
)

// waiting is what the idle waits of a keyspace have in common. There is one blocking move for each queue,
// each on a connection of its own, while its capsule has an idle processor, so that a job on any of many
// queues starts at once without polling.
type waiting struct {
	limit        time.Duration // of one wait
	rest         time.Duration // after the next wait that breaks; zero since one went well
	noWaitsUntil time.Time

	tooManyClients bool          // Redis has refused a connection of this process: see yieldWaits
	yielded        bool          // no wait is opened before the next confirmed heartbeat
	yield          time.Duration // how long waits were closed the last time that Redis had too many clients
	yieldedAt      time.Time     // when that was
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
		k.notDry()
		return
	case k.reconcile.unsure:
		k.release() // nothing may enter our lists before their contents are known
		return
	}
	if k.yielded && !now.Before(k.noWaitsUntil) {
		k.noWaitsUntil = now.Add(pacedTake) // the heartbeat comes first: until it is confirmed, queues are polled from time to time
	}
	for _, in := range k.intakes {
		in.adjustWaits(now)
	}
}

// adjustWaits releases what no processor waits for, and opens the missing waits.
func (in *intake) adjustWaits(now time.Time) {
	k := in.space
	if in.capsule.idle()+in.capsule.promised <= 0 {
		in.release()
		in.dry = false // the next processor that becomes idle takes: no wait has watched the queues since
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
	// After an outage a pipeline goes ahead: twenty waits need not find out that Redis is still away.
	if in.capsule.promised > 0 || !k.outage.since.IsZero() {
		return
	}
	// A take comes first, unless every idle processor has an open wait already. Waits that are being
	// released will be gone in a moment.
	if !in.dry && (in.spare() > 0 || in.leaving()) || !k.session.Leased() {
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
	// A wait that outlives our session would move a job to a process that is gone.
	limit := min(k.limit, session.record.TTL-session.record.Beat)
	from, to := k.Keys.Queue(q.name), k.Keys.Working(q.name, session.Identity)
	go func() {
		w.payload, w.ok, w.err = w.waiter.Wait(context.Background(), from, to, limit)
		close(w.returned)
		k.loop.events <- w
	}()
}

// release ends all waits. Each is asked again until its answer has been read, because a release that
// overtakes its wait finds nothing to end.
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

// leaving reports whether a wait has been asked to end and has not yet.
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

// handle takes in the end of a wait.
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

// failWait judges a failed wait. What it may have moved lies in our list, where reconciling will find it.
func (k *Keyspace) failWait(w *wait) {
	k.reconcile.due = true
	k.doubt(w.session, w.err)
	now := time.Now()
	var refused *driver.ServerError
	switch {
	case w.shut.Load():
		// We have cut it ourselves.
	case driver.TooManyClients(w.err):
		k.tooManyClients = true
	case errors.As(w.err, &refused) && (refused.Code == "OOM" || refused.Code == "NOPERM"):
		// A full Redis refuses blocking moves but not our scripts; so does one whose operator forbids them.
		// That one knows.
		if refused.Code == "OOM" {
			k.cfg.Reporter.refuse("wait", w.err)
		}
		k.paceTakes(now.Add(longestWait), now)
	case errors.As(w.err, &refused) && refused.Code == "WRONGTYPE":
		w.queue.intake.dry = false // the take names the key
		k.paceTakes(now.Add(pacedTake), now)
	default:
		k.restWaits(w.err)
	}
}

// yieldWaits closes the connections of all idle waits for a while, and until a heartbeat is confirmed, when
// Redis has refused this process a connection: queues can be polled instead, but nothing replaces a
// heartbeat or a settle. Paced takes do so meanwhile.
func (k *Keyspace) yieldWaits(now time.Time) {
	k.notDry()
	if k.yielded && now.Before(k.yieldedAt.Add(k.yield)) {
		return // another refusal of the same moment
	}
	if now.Sub(k.yieldedAt) < k.yield+mostYield {
		k.yield = min(2*k.yield, mostYield)
	} else {
		k.yield = leastYield
		k.cfg.Log.Warn().Int("waits", k.waiters()).
			Msg("max number of clients reached; polling instead of idle waits")
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

// restWaits leaves waits alone for a while after one broke. That says nothing of Redis itself: each has a
// connection of its own, which something between may cut, or a server with too many clients refuse. A take
// goes at once to learn more, and paced ones go until waits are tried again.
func (k *Keyspace) restWaits(err error) {
	now := time.Now()
	k.notDry()
	if now.Before(k.noWaitsUntil) {
		return // another one of the same moment
	}
	if 2*k.rest >= longestWait && k.rest < longestWait {
		k.cfg.Log.Warn().Err(err).Msg("idle waits keep failing; polling instead")
	}
	k.rest = min(max(2*k.rest, firstRest), longestWait)
	k.paceTakes(now.Add(k.rest), now.Add(pacedTake))
}

// arriveByWait takes in what a wait brought, unless no processor can run it now: then it is requeued.
func (k *Keyspace) arriveByWait(w *wait) {
	in := w.queue.intake
	// Where one came more may be coming: a take for those processors that no wait stands for.
	in.dry = in.spare() <= 1
	if len(w.payload) > k.cfg.Largest {
		// Redis has its bytes already. Sent again, they would not arrive in time over a slow link.
		k.addLarge(w.session, place{queue: w.queue.name}, lua.LargeOf(w.payload))
		return
	}
	// Promised processors are not idle: a take for them is in flight.
	wanted := w.session == k.session && !k.session.Over() && !w.queue.paused && in.capsule.idle() > 0
	k.bring(w.session, w.queue.name, w.payload, wanted)
}

func (k *Keyspace) closeWaits() {
	for _, q := range k.queues {
		if q.waiter != nil {
			_ = q.waiter.Close() // nothing waits on it
		}
		if q.wait != nil {
			_ = q.wait.waiter.Close() // what it may still move is found by other processes
		}
	}
}
