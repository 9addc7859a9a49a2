package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// A chronicle is when which job was stored and run. Its methods may be called from any goroutine.
type chronicle struct {
	mu    sync.Mutex
	acked map[string]time.Time // by number: when Redis said that it has the job, on as many replicas as wanted
	// stored are the others that it said it has.
	stored map[string]time.Time
	// starts and ends are by number; those of a retry have one more word.
	starts, ends map[string][]time.Time
	// job makes the job of a number.
	job func(n int) client.RawJob
	// every is how long a producer waits between two jobs.
	every time.Duration
}

func newChronicle() *chronicle {
	return &chronicle{
		acked: make(map[string]time.Time), stored: make(map[string]time.Time), starts: make(map[string][]time.Time), ends: make(map[string][]time.Time),
		every: 5 * time.Millisecond,
		job:   func(n int) client.RawJob { return client.RawJob{Class: "Any", ArgsJSON: fmt.Sprintf("[%d,50]", n)} },
	}
}

func (h *chronicle) ack(n string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.acked[n] = time.Now()
	case errors.Is(err, client.ErrReplicas):
		h.stored[n] = time.Now()
	}
}

// failsOnce is the class of a job that fails in its first run.
const failsOnce = "FailsOnce"

// run is the handler. The arguments of a job are its number and how many milliseconds it takes.
func (h *chronicle) run(ctx context.Context, j *job.Job) error {
	n, ms, _ := strings.Cut(strings.Trim(j.ArgsJSON(), "[]"), ",")
	lasts, err := strconv.Atoi(ms)
	if err != nil {
		return err
	}
	_, again := j.RetryCount()
	if again {
		n += " again"
	}
	h.note(h.starts, n)
	select {
	case <-time.After(time.Duration(lasts) * time.Millisecond):
		h.note(h.ends, n)
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.Class() == failsOnce && !again {
		return retry.In(100*time.Millisecond, errors.New("it fails once"))
	}
	return nil
}

func (h *chronicle) note(where map[string][]time.Time, n string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	where[n] = append(where[n], time.Now())
}

// produce pushes one job after the other until ctx ends, numbered from first. One that was not stored for
// sure is not pushed again.
func (h *chronicle) produce(ctx context.Context, pusher *client.Client, first int) {
	for n := first; ctx.Err() == nil; n++ {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_, err := pusher.Push(deadline, h.job(n))
		h.ack(strconv.Itoa(n), err)
		cancel()
		time.Sleep(h.every)
	}
}

// rest waits until every job that was stored, but for those of the span in which Redis may forget them, has
// run.
func (h *chronicle) rest(t *testing.T, from, to time.Time) (lost int) {
	t.Helper()
	var missing []string
	eventually(t, "every job to be run", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		lost, missing = 0, nil
		for n, at := range h.acked {
			if len(h.starts[n]) == 0 && at.After(from) && at.Before(to) {
				lost++
			} else if len(h.starts[n]) == 0 {
				missing = append(missing, n+" of "+at.Format(time.StampMilli))
			}
		}
		return len(missing) == 0
	})
	return lost
}

func (h *chronicle) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.starts)
}

// runs is how many runs there were, as Redis counts them.
func (h *chronicle) runs() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, starts := range h.starts {
		n += len(starts)
	}
	return strconv.Itoa(n)
}

// awaitStart waits until a job that was stored after an instant has been begun, and answers when.
func (h *chronicle) awaitStart(t *testing.T, after time.Time) (at time.Time) {
	t.Helper()
	eventually(t, "a job that was stored since to begin", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for n, starts := range h.starts {
			stored, ok := h.acked[n]
			if !ok {
				stored, ok = h.stored[n]
			}
			if ok && stored.After(after) && (at.IsZero() || starts[0].Before(at)) {
				at = starts[0]
			}
		}
		return !at.IsZero()
	})
	return at
}

// requireOnce holds that only what ran within a span ran more than once.
func (h *chronicle) requireOnce(t *testing.T, from, to time.Time) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	twice := 0
	for n, starts := range h.starts {
		if len(starts) == 1 {
			continue
		}
		twice++
		for _, at := range starts[:len(starts)-1] {
			require.True(t, at.After(from) && at.Before(to), "job %s ran at %v", n, starts)
		}
	}
	t.Logf("run more than once: %d of %d", twice, len(h.starts))
}

// forget begins a new round.
func (h *chronicle) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.acked)
	clear(h.starts)
	clear(h.ends)
}

// inHand is how many runs have begun and not ended.
func (h *chronicle) inHand() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, starts := range h.starts {
		n += len(starts) - len(h.ends[name])
	}
	return n
}

// requireAccounted holds, when everything has ended, that of what was stored only that was lost, and only what
// was taken or ended ran again, which a primary had acknowledged in its last moment. It answers how many were lost.
func (h *chronicle) requireAccounted(t *testing.T, failovers []failover) (lost int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	twice := 0
	for n, at := range h.acked {
		if len(h.starts[n]) == 0 {
			lost++
			require.True(t, slices.ContainsFunc(failovers, func(f failover) bool { return f.forgot(at) }), "job %s, stored at %v, did not run", n, at)
		}
	}
	for n, starts := range h.starts {
		require.Len(t, h.ends[n], len(starts), "a run of job %s did not end", n)
		for i, start := range starts[:len(starts)-1] {
			twice++
			end := h.ends[n][i]
			require.True(t, slices.ContainsFunc(failovers, func(f failover) bool {
				return f.forgot(end) || start.After(f.before.Add(-replicated)) && start.Before(f.switched)
			}), "job %s ran from %v to %v, and again at %v", n, start, end, starts[i+1:])
		}
	}
	t.Logf("%d jobs stored, %d of them lost; %d runs, %d of them repeated", len(h.acked), lost, len(h.starts)+twice, twice)
	return lost
}
