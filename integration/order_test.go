package integration

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// openers are both ways to Redis, for workers in this process.
var openers = adapters.Open

// What is measured here is finer than the start of a program: the worker runs in this process.
func TestTaking(t *testing.T) {
	for name := range openers {
		connect := func(t *testing.T) (*site, driver.Client) {
			s := newSite(t, drivertest.Redis(t))
			s.client = name
			return s, s.driverOf(check.RoleWorker)
		}
		t.Run("follows the weights of full queues, "+name, func(t *testing.T) {
			s, client := connect(t)
			followsWeights(t, s, client)
		})
		t.Run("of an idle worker is prompt, "+name, func(t *testing.T) {
			s, client := connect(t)
			isPrompt(t, s, client)
		})
	}
}

// run runs a worker in this process until the test ends.
func (s *site) run(cfg launcher.Config, handler launcher.Handler) {
	s.t.Helper()
	cfg.Prefix = s.prefix
	l, err := launcher.New(cfg)
	require.NoError(s.t, err)
	l.Handle(launcher.AnyClass, handler, launcher.Class{})
	done := make(chan error, 1)
	go func() { done <- l.Run(context.Background()) }()
	s.t.Cleanup(func() {
		l.Stop()
		require.NoError(s.t, <-done)
	})
}

func followsWeights(t *testing.T, s *site, client driver.Client) {
	const takes = 10_000
	for _, queue := range []string{"a", "b"} {
		words := []string{"LPUSH", s.keys.Queue(queue)}
		for range takes { // so many that neither runs dry before the last take that counts
			words = append(words, rubyPayload("Any", queue, "[]", newJID()))
		}
		s.do(words...)
	}
	var ran, fromA atomic.Int64
	counted := make(chan struct{})
	s.run(launcher.Config{
		Client: client, Concurrency: 1, ShutdownTimeout: -1, Queues: []fetch.Queue{{Name: "a", Weight: 3}, {Name: "b", Weight: 1}},
	}, func(ctx context.Context, _ *job.Job) error {
		if n := ran.Add(1); n > takes {
			<-ctx.Done() // enough: nothing more must run, and a stop requeues this one
			return ctx.Err()
		} else if info, _ := launcher.Info(ctx); info.Queue == "a" {
			fromA.Add(1)
		}
		if ran.Load() == takes {
			close(counted)
		}
		return nil
	})
	receive(t, "so many jobs to be run", counted)
	share := float64(fromA.Load()) / takes
	t.Logf("%.1f %% came from the queue of weight 3", 100*share)
	require.InDelta(t, 0.75, share, 0.03)
}

func isPrompt(t *testing.T, s *site, client driver.Client) {
	started := make(chan time.Time, 1)
	s.run(launcher.Config{Client: client}, func(context.Context, *job.Job) error {
		started <- time.Now()
		return nil
	})
	var took []time.Duration
	for range 500 {
		time.Sleep(3 * time.Millisecond) // so that the worker is idle again: its last job is settled
		pushedAt := time.Now()
		s.push("Any", "default", "[]")
		took = append(took, receive(t, "the job to start", started).Sub(pushedAt))
	}
	slices.Sort(took)
	t.Logf("from before a push, over a new connection, to its handler: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
	// A machine that stalls makes some late. A worker that is not woken starts them all late.
	require.Less(t, took[len(took)/2], promptStart)
}

// receive waits for a value on a channel.
func receive[T any](t *testing.T, what string, channel <-chan T) T {
	t.Helper()
	return receiveWithin(t, patience, what, channel)
}

func receiveWithin[T any](t *testing.T, limit time.Duration, what string, channel <-chan T) T {
	t.Helper()
	select {
	case value := <-channel:
		return value
	case <-time.After(limit):
		require.FailNow(t, "waited in vain for "+what)
		panic("unreachable")
	}
}
