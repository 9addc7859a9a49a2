package measure

import (
	"context"
	"errors"
	"time"

	"github.com/belayq/belay/bench/peers/talk"
)

// A timed is a set of jobs, each with the instant from which it is timed, and the worker that runs them.
type timed struct {
	*ledger
	due  []time.Time     // set before the first job is stored
	took []time.Duration // from due to the beginning of the first run; each is written once, before the ledger counts it
}

// startTimed waits for the bench and starts the worker that will run so many timed jobs.
func (t *task) startTimed(ctx context.Context, jobs int) (*timed, error) {
	if jobs < 1 {
		return nil, errors.New("there is not one job to time: rate, seconds or jobs is missing")
	}
	if err := t.wire.Wait(talk.Event{Event: talk.Ready}); err != nil {
		return nil, err
	}
	s := &timed{ledger: newLedger(jobs), due: make([]time.Time, jobs), took: make([]time.Duration, jobs)}
	return s, t.peer.Start(ctx, "", s.handle)
}

// handle reads the clock before anything else.
func (s *timed) handle(n int, _ string) error {
	now := time.Now()
	return s.note(n, func() { s.took[n] = now.Sub(s.due[n]) })
}

// job is the n-th job, stored ahead of its instant.
func (s *timed) job(n int) Job { return Job{N: n, Class: Noop, DueAt: s.due[n]} }

// finish waits for the last job and makes the figures.
func (s *timed) finish(ctx context.Context) (talk.Event, error) {
	last := s.due[0]
	for _, due := range s.due {
		last = later(last, due)
	}
	if err := s.wait(ctx, time.Until(last)+patience); err != nil {
		return talk.Event{}, err
	}
	event := talk.Event{Latencies: make([]int64, len(s.took))}
	for n, took := range s.took {
		event.Latencies[n] = took.Microseconds()
	}
	return event, s.check()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
