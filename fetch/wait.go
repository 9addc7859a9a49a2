package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// waits are the idle waits: one blocking move for each queue, each on a connection of its own, all parked while a
// processor is free, so that a job on any of many queues starts at once and nobody polls.
type waits struct {
	client driver.Client
	parked map[string]*parked
	idle   map[string]driver.Waiter // connections between two waits
	limit  time.Duration
	rest   time.Duration // after the next wait that breaks; zero since one went well

	yielded   bool          // no wait is opened before the next confirmed heartbeat
	yield     time.Duration // how long waits were closed the last time that Redis had too many clients
	yieldedAt time.Time     // when that was
}

const (
	// leastYield is how long waits first stay closed when Redis has too many clients. The time doubles with
	// each repetition, up to mostYield. Meanwhile paced takes replace the waits, with a delay of up to
	// pacedTake.
	leastYield = 2 * time.Second
	mostYield  = time.Minute
)

// parked is one wait under way.
type parked struct {
	waiter   driver.Waiter
	op       int64
	returned chan struct{}
	leaving  bool        // its release has been requested
	shut     atomic.Bool // its connection should be closed
	cannot   atomic.Bool
}

func newWaits(client driver.Client) *waits {
	return &waits{client: client, parked: make(map[string]*parked), idle: make(map[string]driver.Waiter), limit: longestWait}
}

func (w *waits) open() int { return len(w.parked) }

// leaving says whether a wait has been asked to end and has not yet.
func (w *waits) leaving() bool {
	for _, wait := range w.parked {
		if wait.leaving {
			return true
		}
	}
	return false
}

// waited is the end of one wait.
type waited struct {
	queue   string
	life    *Life
	wait    *parked
	payload string
	ok      bool
	err     error
}

// adjustWaits parks what should be parked now and releases what should not.
func (f *Fetcher) adjustWaits(now time.Time) {
	if f.crowded.Swap(false) {
		f.yieldWaits(now)
	}
	if f.quiet || f.idle()+f.promised <= 0 {
		f.waits.release(nil)
		if !f.quiet {
			// Whoever becomes idle next looks for itself: nobody has watched the queues since.
			f.dry = false
		}
		return
	}
	if f.aside() {
		f.waits.release(nil)
		f.dry = false
		return
	}
	if f.strays.unsure {
		f.waits.release(nil) // nothing may enter our lists before their contents are known
		return
	}
	f.waits.release(f.paused)
	if f.waits.yielded && !now.Before(f.noWaitsUntil) {
		f.noWaitsUntil = now.Add(pacedTake) // the heartbeat comes first: until it is confirmed, queues are polled from time to time
	}
	if f.fenced || f.life == nil || !f.life.Leased() || now.Before(f.noWaitsUntil) {
		return
	}
	// After an outage a pipeline goes ahead: twenty waits need not find out that Redis is still away.
	if f.promised > 0 || !f.outage.since.IsZero() {
		return
	}
	// A take comes first, unless every idle processor has a wait standing for it already. Waits that are being released
	// will be gone in a moment.
	if !f.dry && (f.spare() > 0 || f.waits.leaving()) {
		return
	}
	if !f.cfg.Company.mayWait(f) {
		return
	}
	for _, queue := range f.cfg.Order.Names() {
		if f.waits.parked[queue] == nil && !f.paused[queue] && !f.broken[queue] && f.shunned[queue].IsZero() {
			f.park(queue)
		}
	}
}

func (f *Fetcher) park(queue string) {
	waiter := f.waits.idle[queue]
	if waiter == nil {
		var err error
		if waiter, err = f.waits.client.Waiter(); err != nil {
			f.restWaits(err)
			return
		}
	}
	delete(f.waits.idle, queue)
	life := f.life
	wait := &parked{waiter: waiter, op: f.begin(), returned: make(chan struct{})}
	f.waits.parked[queue] = wait
	// A wait that outlives our life would move a job to somebody nobody asks any more.
	limit := min(f.waits.limit, life.record.TTL-life.record.Beat)
	from, to := f.cfg.Keys.Queue(queue), f.cfg.Keys.Working(queue, life.Identity)
	go func() {
		end := waited{queue: queue, life: life, wait: wait}
		end.payload, end.ok, end.err = waiter.Wait(context.Background(), from, to, limit)
		close(wait.returned)
		f.events <- end
	}()
}

// release ends the waits on these queues, on all of them when queues is nil. Each is asked again until its answer has
// been read, because a release that overtakes its wait finds nothing to end.
func (w *waits) release(queues map[string]bool) {
	for queue, wait := range w.parked {
		if wait.leaving || (queues != nil && !queues[queue]) {
			continue
		}
		wait.leaving = true
		go wait.leave()
	}
}

func (p *parked) leave() {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-p.returned:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := p.waiter.Release(ctx)
		cancel()
		if err != nil && p.shut.Load() {
			_ = p.waiter.Close() // a job that it may have moved is in our list, where the look finds it
			return
		}
		if errors.Is(err, driver.ErrNoRelease) {
			p.cannot.Store(true)
			return
		}
		select {
		case <-p.returned:
			return
		case <-time.After(pause):
		}
	}
}

func (end waited) handle(f *Fetcher) {
	delete(f.waits.parked, end.queue)
	f.end(end.wait.op)
	if end.wait.shut.Load() {
		_ = end.wait.waiter.Close() // nothing waits on it
	} else {
		f.waits.idle[end.queue] = end.wait.waiter
	}
	if end.wait.cannot.Load() {
		f.waits.limit = shortWait
	}
	if end.err != nil {
		f.failWait(end)
		return
	}
	f.succeed()
	f.waits.rest = 0
	if end.ok {
		f.arriveByWait(end)
	}
}

// failWait judges a failed wait. What it may have moved lies in our list, where the look will find it.
func (f *Fetcher) failWait(end waited) {
	f.look = true
	f.doubt(end.life, end.err)
	var refused *driver.ServerError
	switch {
	case end.wait.shut.Load():
		// We have cut it ourselves.
	case driver.TooManyClients(end.err):
		f.Crowded()
	case errors.As(end.err, &refused) && (refused.Code == "OOM" || refused.Code == "NOPERM"):
		// A full Redis refuses blocking moves but not our scripts; so does one whose operator forbids them. That one knows.
		if refused.Code == "OOM" {
			f.cfg.Reporter.refuse("wait", end.err)
		}
		f.noWaitsUntil = time.Now().Add(longestWait)
		f.paceAt = time.Now()
	case errors.As(end.err, &refused) && refused.Code == "WRONGTYPE":
		f.dry = false // the take names the key
		f.paceAt = time.Now()
		f.noWaitsUntil = time.Now().Add(pacedTake)
	default:
		f.restWaits(end.err)
	}
}

// Crowded reports to the Fetcher that Redis refused this process a connection. Idle waits give up theirs
// first: queues can be polled instead, but nothing replaces a heartbeat or a settle. It may be called from
// any goroutine.
func (f *Fetcher) Crowded() { f.cfg.Company.crowded() }

// yieldWaits closes the connections of all idle waits for a while, and until a heartbeat is confirmed. Paced
// takes poll the queues meanwhile.
func (f *Fetcher) yieldWaits(now time.Time) {
	w := f.waits
	f.dry = false
	if w.yielded && now.Before(w.yieldedAt.Add(w.yield)) {
		return // another refusal of the same moment
	}
	if now.Sub(w.yieldedAt) < w.yield+mostYield {
		w.yield = min(2*w.yield, mostYield)
	} else {
		w.yield = leastYield
		f.cfg.Log.Warn().Int("waits", len(w.parked)+len(w.idle)).
			Msg("max number of clients reached: idle waits are closed; queues are polled four times a second instead")
	}
	w.yielded, w.yieldedAt = true, now
	f.noWaitsUntil, f.paceAt = now.Add(w.yield), now.Add(pacedTake)
	for queue, waiter := range w.idle {
		_ = waiter.Close() // nothing waits on it
		delete(w.idle, queue)
	}
	for _, wait := range w.parked {
		wait.shut.Store(true)
	}
	w.release(nil)
}

// restWaits leaves waits alone for a while after one broke. That says nothing of Redis itself: each has a connection of
// its own, which something between may cut, or a server with too many clients refuse. A take goes at once to learn more,
// and paced ones go until waits are tried again.
func (f *Fetcher) restWaits(err error) {
	now := time.Now()
	f.dry = false
	if now.Before(f.noWaitsUntil) {
		return // another one of the same moment
	}
	if 2*f.waits.rest >= longestWait && f.waits.rest < longestWait {
		f.cfg.Log.Warn().Err(err).Msg("idle waits break again and again: queues are looked at four times a second instead")
	}
	f.waits.rest = min(max(2*f.waits.rest, firstRest), longestWait)
	f.noWaitsUntil, f.paceAt = now.Add(f.waits.rest), now.Add(pacedTake)
}

// arriveByWait brings into hand what a wait answered, unless nobody can run it now: then it goes straight back.
func (f *Fetcher) arriveByWait(end waited) {
	// Where one came more may be coming: a take for those processors that no wait stands for.
	f.dry = f.spare() <= 1
	if len(end.payload) > f.cfg.Largest {
		// Redis has its bytes already. Sent again, they would not arrive in time over a slow link.
		f.tooLarge(end.life, place{queue: end.queue}, lua.LargeOf(end.payload))
		return
	}
	// Promised processors are not idle: a take for them is under way.
	wanted := end.life == f.life && !f.life.Over() && !f.paused[end.queue] && f.idle() > 0
	f.bring(end.life, end.queue, end.payload, wanted)
}

func (w *waits) close() {
	for _, waiter := range w.idle {
		_ = waiter.Close() // nothing waits on it
	}
	for _, wait := range w.parked {
		_ = wait.waiter.Close() // what it may still move is found by those who stay
	}
}
