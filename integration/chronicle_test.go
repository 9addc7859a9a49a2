package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
)

// A chronicle is when which job was stored and run. Its methods may be called from any goroutine.
type chronicle struct {
	mu     sync.Mutex
	acked  map[string]time.Time   // by number: when Redis said that it has the job
	starts map[string][]time.Time // by number
}

func newChronicle() *chronicle {
	return &chronicle{acked: make(map[string]time.Time), starts: make(map[string][]time.Time)}
}

func (h *chronicle) ack(n string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[n] = time.Now()
}

func (h *chronicle) run(ctx context.Context, j *job.Job) error {
	h.mu.Lock()
	n := strings.Trim(j.ArgsJSON(), "[]")
	h.starts[n] = append(h.starts[n], time.Now())
	h.mu.Unlock()
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// produce pushes a job every few milliseconds until ctx ends, numbered from first. One that was not stored for
// sure is not pushed again.
func (h *chronicle) produce(ctx context.Context, pusher *client.Client, first int) {
	for n := first; ctx.Err() == nil; n++ {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		if _, err := pusher.Push(deadline, client.RawJob{Class: "Any", ArgsJSON: fmt.Sprintf("[%d]", n)}); err == nil {
			h.ack(strconv.Itoa(n))
		}
		cancel()
		time.Sleep(5 * time.Millisecond)
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
func (h *chronicle) awaitStart(after time.Time) (at time.Time) {
	for deadline := time.Now().Add(patience); at.IsZero() && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		for n, starts := range h.starts {
			if acked, ok := h.acked[n]; ok && acked.After(after) && (at.IsZero() || starts[0].Before(at)) {
				at = starts[0]
			}
		}
		h.mu.Unlock()
	}
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
}
