package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

// Tracked is what is known about a tracked job.
type Tracked = lua.Tracked

// TrackState is the state of a tracked job.
type TrackState = lua.TrackState

// The states of a tracked job; package lua describes them.
const (
	TrackWaiting   = lua.TrackWaiting
	TrackRunning   = lua.TrackRunning
	TrackRetrying  = lua.TrackRetrying
	TrackDone      = lua.TrackDone
	TrackDead      = lua.TrackDead
	TrackDiscarded = lua.TrackDiscarded
	TrackCancelled = lua.TrackCancelled
	TrackExpired   = lua.TrackExpired
)

// Tracked returns what is known about a tracked job: its state, its progress and, until the time given to Track
// has passed, its result or the error of its last run. A job that no worker has reported has the state
// lua.TrackWaiting; that it exists is not checked, because a push leaves no trace but the job: Find of package
// inspect looks for it. It costs one HMGET.
func (c *Client) Tracked(ctx context.Context, jid string) (Tracked, error) {
	all, err := c.TrackedMany(ctx, jid)
	if err != nil {
		return Tracked{}, err
	}
	return all[0], nil
}

// TrackedMany is Tracked for many jobs, in their order. It costs one round trip for each 64 of them.
func (c *Client) TrackedMany(ctx context.Context, jids ...string) ([]Tracked, error) {
	if c.place == nil {
		return c.spaces[0].tracked(ctx, jids)
	}
	shards, errs := make([][]Tracked, len(c.spaces)), make([]error, len(c.spaces))
	each(len(c.spaces), func(i int) {
		shards[i], errs[i] = c.spaces[i].tracked(ctx, jids)
		errs[i] = c.spaces[i].of(errs[i])
	})
	all := make([]Tracked, 0, len(jids))
	for n, jid := range jids {
		found := Tracked{JID: jid, State: TrackWaiting}
		for _, shard := range shards {
			if n < len(shard) && shard[n].State != TrackWaiting {
				found = shard[n]
			}
		}
		if found.State == TrackWaiting { // or a shard that did not answer knows better
			if err := errors.Join(errs...); err != nil {
				return all, err
			}
		}
		all = append(all, found)
	}
	return all, nil
}

// tracked is TrackedMany for one keyspace.
func (s *space) tracked(ctx context.Context, jids []string) ([]Tracked, error) {
	all := make([]Tracked, 0, len(jids))
	for page := range slices.Chunk(jids, readAtOnce) {
		asks, calls := lua.AskEach(page, s.keys.ReadTracked)
		for n, reply := range s.driver.Do(ctx, calls...) {
			tracked, err := asks[n].Read(reply)
			if err != nil {
				return all, fmt.Errorf("belay: read the state of %s: %w", page[n], err)
			}
			all = append(all, tracked)
		}
	}
	return all, nil
}

// Wait waits until a tracked job has ended, and returns what is known about it. The error is
//   - nil if the job is done;
//   - an *EndedError if it ended otherwise: dead, discarded, cancelled or expired;
//   - an error at once if jid is empty;
//   - the error of ctx if that ends first, and the error of Redis if it refuses the read. Wait waits for the
//     end of an outage.
//
// A job that has ended is found until the time given to Track has passed. For a job that was not tracked, or
// does not exist, Wait returns when ctx ends. So it is for the jid of a push that was refused as a duplicate:
// wait for the Holder of its receipt.
//
// All Waits of a Client share one subscription, and each reads its job about twice. In addition, the Client
// reads all awaited jobs every ten seconds, 64 in a round trip, so a Wait whose message is lost ends by then.
func (c *Client) Wait(ctx context.Context, jid string) (Tracked, error) {
	if jid == "" {
		return Tracked{}, errors.New("belay: wait for a job: the jid is empty; check the error of the push")
	}
	end, err := c.wait(ctx, jid)
	switch {
	case err != nil:
		return Tracked{JID: jid}, fmt.Errorf("belay: wait for %s: %w", jid, err)
	case end.tracked.State != lua.TrackDone:
		t := end.tracked
		return t, &EndedError{JID: jid, State: t.State, ErrorClass: t.ErrorClass, ErrorMessage: t.ErrorMessage}
	}
	return end.tracked, nil
}

// wait waits in the keyspace of the client; with shards in each of them, because a jid does not say its shard.
func (c *Client) wait(ctx context.Context, jid string) (ended, error) {
	if c.place == nil {
		return c.spaces[0].waits.wait(ctx, c.spaces[0], jid)
	}
	w := make(wait, 1)
	for _, s := range c.spaces {
		s.waits.add(s, jid, w)
		defer s.waits.remove(jid, w)
	}
	return w.await(ctx)
}

// An EndedError is the error of a Wait for a job that ended without being done.
type EndedError struct {
	JID   string
	State lua.TrackState
	// ErrorClass and ErrorMessage describe the error of the last run that failed; see Tracked. They are empty
	// if none failed, or if a worker from before these fields ended the job.
	ErrorClass, ErrorMessage string
}

// Error names the job, its state, and the error of its last run.
func (e *EndedError) Error() string {
	text := fmt.Sprintf("belay: job %s is %s", e.JID, e.State)
	if e.ErrorClass != "" {
		text += ": " + e.ErrorClass + ": " + e.ErrorMessage
	}
	return text
}

const (
	// pollEvery is how often awaited jobs are read without a message, because a message may have been lost.
	pollEvery = 10 * time.Second
	// afterFailure is the longest pause before another attempt to subscribe or to read.
	afterFailure = time.Second
	// keepListening is how long the subscription is kept after the last Wait, for the next one.
	keepListening = 5 * time.Second
)

// readAtOnce is how many jobs one pipeline reads: their results are bounded.
const readAtOnce = lua.MaxBytes / lua.MaxResult

// A wait is a call of Wait, which receives how its job or its batch ended. Its buffer holds one end.
type wait chan ended

type ended struct {
	tracked Tracked
	batch   BatchStatus
	err     error
}

// waits are the calls of Wait under way. While there are any, one goroutine listens, and another one reads the
// jobs that may have ended. A batch is in it under lua.BatchMessage, and is read like a job.
type waits struct {
	mu      sync.Mutex
	byJID   map[string][]wait
	due     map[string]bool    // jids to read
	isDue   chan struct{}      // has an element if there are any
	stop    context.CancelFunc // ends both goroutines; nil if there are none
	idle    *time.Timer        // calls stop when it expires
	running sync.WaitGroup
	closed  bool
}

// wait waits for the end of a job or of a batch.
func (s *waits) wait(ctx context.Context, in *space, jid string) (ended, error) {
	w := make(wait, 1)
	s.add(in, jid, w)
	defer s.remove(jid, w)
	return w.await(ctx)
}

func (w wait) await(ctx context.Context) (ended, error) {
	select {
	case end := <-w:
		return end, end.err
	case <-ctx.Done():
		return ended{}, context.Cause(ctx)
	}
}

func (s *waits) add(in *space, jid string, w wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.end(ended{err: errClosed})
		return
	}
	if s.byJID == nil {
		s.byJID, s.due, s.isDue = make(map[string][]wait), make(map[string]bool), make(chan struct{}, 1)
	}
	s.byJID[jid] = append(s.byJID[jid], w)
	s.readLocked(jid)
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		s.running.Go(func() { s.listen(ctx, in) })
		s.running.Go(func() { s.readAll(ctx, in) })
	}
}

var errClosed = errors.New("the client is closed")

func (s *waits) remove(jid string, w wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.byJID[jid], func(other wait) bool { return other == w })
	if s.byJID[jid] = rest; len(rest) == 0 {
		delete(s.byJID, jid)
		delete(s.due, jid)
	}
	if len(s.byJID) == 0 && s.stop != nil {
		s.idle = time.AfterFunc(keepListening, s.stopIdle)
	}
}

// stopIdle ends the goroutines if no Wait is under way.
func (s *waits) stopIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byJID) == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// close ends all Waits.
func (s *waits) close() {
	s.mu.Lock()
	s.closed = true
	for _, waits := range s.byJID {
		for _, w := range waits {
			w.end(ended{err: errClosed})
		}
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (w wait) end(end ended) {
	select {
	case w <- end:
	default: // it has an end already
	}
}

// readLocked schedules a read of the awaited jobs among these jids.
func (s *waits) readLocked(jids ...string) {
	for _, jid := range jids {
		if len(s.byJID[jid]) > 0 {
			s.due[jid] = true
		}
	}
	select {
	case s.isDue <- struct{}{}:
	default:
	}
}

// poll schedules a read of all awaited jobs.
func (s *waits) poll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for jid := range s.byJID {
		s.readLocked(jid)
	}
}

// listen keeps the subscription. Messages from before its start are missed, so all jobs are read when it
// starts.
func (s *waits) listen(ctx context.Context, in *space) {
	for ctx.Err() == nil {
		_ = in.driver.Listen(ctx, []string{in.keys.Ended()}, driver.ListenProbe, s.poll, func(message string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.readLocked(lua.EndedOf(message)...)
		})
		rest(ctx, link.Jitter(afterFailure), nil)
	}
}

// readAll reads jobs as they become due, as many in one pipeline as there are by then.
func (s *waits) readAll(ctx context.Context, in *space) {
	pollAt := time.Now().Add(pollEvery)
	for ctx.Err() == nil {
		rest(ctx, time.Until(pollAt), s.isDue)
		if !time.Now().Before(pollAt) {
			pollAt = time.Now().Add(pollEvery)
			s.poll()
		}
		for jids := s.take(); len(jids) > 0 && ctx.Err() == nil; jids = s.take() {
			if !s.read(ctx, in, jids) {
				rest(ctx, link.Jitter(afterFailure), nil)
			}
		}
	}
}

// rest waits for d, for early, or for the end of ctx.
func rest(ctx context.Context, d time.Duration, early <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-early:
	}
}

// take returns jids that are due, at most readAtOnce of them.
func (s *waits) take() (jids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for jid := range s.due {
		if len(jids) == readAtOnce {
			break
		}
		jids = append(jids, jid)
		delete(s.due, jid)
	}
	return jids
}

// read reads jobs and ends the Waits for those that have ended. It returns false if Redis did not answer.
func (s *waits) read(ctx context.Context, in *space, jids []string) (answered bool) {
	ends := make([]ended, len(jids))
	over := make([]bool, len(jids)) // it has ended
	var plain []int
	for i, jid := range jids {
		id, isBatch := lua.BatchOfMessage(jid)
		if !isBatch {
			plain = append(plain, i)
			continue
		}
		read, err := in.readBatch(ctx, id)
		ends[i] = ended{batch: read.BatchStatus, err: err}
		over[i] = read.State == lua.BatchStateOver || read.State == lua.BatchStateDead
	}
	asks, calls := lua.AskEach(plain, func(i int) lua.Ask[Tracked] { return in.keys.ReadTracked(jids[i]) })
	if len(calls) > 0 {
		for n, reply := range in.driver.Do(ctx, calls...) {
			end := &ends[plain[n]]
			end.tracked, end.err = asks[n].Read(reply)
			over[plain[n]] = end.tracked.State.Ended()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answered = true
	for i, jid := range jids {
		switch err := ends[i].err; {
		case driver.Outage(err) && !errors.Is(err, ErrNoBatch):
			answered = false
			s.readLocked(jid)
		case err != nil || over[i]:
			for _, w := range s.byJID[jid] {
				w.end(ends[i])
			}
		}
	}
	return answered
}
