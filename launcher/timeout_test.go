package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// endings are the ways in which a handler comes back after its context has ended.
var endings = map[string]func(ctx context.Context) error{
	"Nil":     func(context.Context) error { return nil },
	"Err":     func(ctx context.Context) error { return ctx.Err() },
	"Cause":   func(ctx context.Context) error { return fmt.Errorf("wrapped: %w", context.Cause(ctx)) },
	"Own":     func(context.Context) error { return errors.New("boom") },
	"Panic":   func(context.Context) error { panic("boom") },
	"Goexit":  func(context.Context) error { runtime.Goexit(); return nil },
	"Kill":    func(context.Context) error { return retry.Kill(errors.New("boom")) },
	"Discard": func(context.Context) error { return retry.Discard(errors.New("boom")) },
	"Snooze":  func(context.Context) error { return retry.Snooze(time.Hour) },
	"RetryIn": func(context.Context) error { return retry.In(time.Hour, errors.New("boom")) },
}

// classesIn are the classes of the jobs in a sorted set.
func (r *rig) classesIn(key string) []string {
	r.t.Helper()
	var classes []string
	for _, entry := range r.set(key) {
		parsed, err := job.Parse(entry)
		require.NoError(r.t, err)
		classes = append(classes, parsed.Class())
	}
	return classes
}

// A run over its timeout is canceled, and what it returns then is its outcome like any other.
func TestTimeout(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		causes := make(chan error, len(endings))
		for class, end := range endings {
			l.Handle(class, func(ctx context.Context, _ *job.Job) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end(ctx)
			}, launcher.Class{Timeout: 20 * time.Millisecond})
			r.push(class, "[]")
		}
		r.start(l)
		r.eventually("nine to be counted", func() bool { return r.counter(r.keys.Processed()) == "9" })
		require.Equal(t, "8", r.counter(r.keys.Failed()), "all but the nil and the snooze")
		require.ElementsMatch(t, []string{"Err", "Cause", "Own", "Panic", "Goexit", "RetryIn"}, r.classesIn(r.keys.Retry()))
		require.Equal(t, []string{"Kill"}, r.classesIn(r.keys.Dead()))
		r.eventually("the snooze", func() bool { return len(r.set(r.keys.Schedule())) == 1 })
		require.Equal(t, []string{"Snooze"}, r.classesIn(r.keys.Schedule()))
		require.Empty(t, r.list(r.keys.Queue("default")))
		for range endings {
			cause := receive(t, "a cause", causes)
			require.ErrorIs(t, cause, launcher.ErrTimeout)
			require.ErrorIs(t, cause, context.DeadlineExceeded)
			require.EqualError(t, cause, "timed out after 20ms")
		}
	})
}

func TestTimeout_leaves_alone_what_is_done_in_time(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		l.Handle("Quick", func(ctx context.Context, _ *job.Job) error {
			_, bounded := ctx.Deadline()
			if !bounded || ctx.Err() != nil {
				return errors.New("no timeout ahead")
			}
			return nil
		}, launcher.Class{Timeout: time.Hour})
		r.push("Quick", "[]")
		r.start(l)
		r.eventually("the end", func() bool { return r.counter(r.keys.Processed()) == "1" })
		require.Empty(t, r.counter(r.keys.Failed()))
	})
	require.PanicsWithValue(t, "belay: Handle A: the timeout is negative; leave it out for none", func() {
		l, err := launcher.New(launcher.Config{Client: struct{ driver.Client }{}})
		require.NoError(t, err)
		l.Handle("A", func(context.Context, *job.Job) error { return nil }, launcher.Class{Timeout: -1})
	})
}

// What a handler says that the stop has cancelled is no outcome: its job goes back as it was, and nothing is
// counted. A nil is: the work is done.
func TestShutdownIsNoOutcome(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Concurrency, cfg.ShutdownTimeout = len(endings), -1
		l := r.build(cfg)
		l.OnError(func(_ context.Context, j *job.Job, err error) { t.Errorf("%s is reported: %v", j.Class(), err) })
		started := make(chan bool)
		causes := make(chan error, len(endings))
		var kept []string
		for class, end := range endings {
			l.Handle(class, func(ctx context.Context, _ *job.Job) error {
				started <- true
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end(ctx)
			}, launcher.Class{Timeout: time.Hour}) // far away: it plays no part
			if payload := r.push(class, "[1.0]"); class != "Nil" {
				kept = append([]string{payload}, kept...) // as they lie in the queue
			}
		}
		w := r.start(l)
		for range endings {
			receive(t, "a start", started)
		}
		w.Stop()
		w.wait(t)
		for range endings {
			require.ErrorIs(t, receive(t, "a cause", causes), launcher.ErrShutdown)
		}
		require.Equal(t, kept, r.list(r.keys.Queue("default")))
		require.Equal(t, "1", r.counter(r.keys.Processed()))
		require.Empty(t, r.counter(r.keys.Failed()))
		for _, key := range []string{r.keys.Retry(), r.keys.Dead(), r.keys.Schedule()} {
			require.Empty(t, r.set(key))
		}
	})
}

// A run that was over its timeout had failed before the stop came: it is not run for ever, deployment after
// deployment.
func TestTimeout_counts_when_it_came_before_the_stop(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.ShutdownTimeout = -1
		l := r.build(cfg)
		late, stopped := make(chan bool, 1), make(chan bool)
		l.Handle("Late", func(ctx context.Context, _ *job.Job) error {
			<-ctx.Done()
			late <- true
			<-stopped
			return ctx.Err()
		}, launcher.Class{Timeout: 20 * time.Millisecond})
		l.Handle("Stopped", func(ctx context.Context, _ *job.Job) error {
			<-ctx.Done()
			close(stopped)
			return ctx.Err()
		}, launcher.Class{})
		back := r.push("Stopped", "[]")
		r.push("Late", "[]")
		w := r.start(l)
		receive(t, "the timeout", late)
		w.Stop()
		w.wait(t)
		require.Equal(t, "1", r.counter(r.keys.Failed()))
		require.Equal(t, []string{"Late"}, r.classesIn(r.keys.Retry()))
		require.Equal(t, []string{back}, r.list(r.keys.Queue("default")))
	})
}

// What a handler returns after its job was recovered is ignored: the job belongs to another process.
func TestOwnershipLostIsNoOutcome(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Concurrency = len(endings)
		l := r.build(cfg)
		l.OnError(func(_ context.Context, j *job.Job, err error) { t.Errorf("%s is reported: %v", j.Class(), err) })
		started, causes := make(chan bool), make(chan error, len(endings))
		var mu sync.Mutex
		again := make(map[string]bool)
		var payloads []string
		for class, end := range endings {
			l.Handle(class, func(ctx context.Context, j *job.Job) error {
				mu.Lock()
				second := again[j.JID()]
				again[j.JID()] = true
				mu.Unlock()
				if second {
					return nil
				}
				started <- true
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return end(ctx)
			}, launcher.Class{})
			payloads = append(payloads, r.push(class, "[]"))
		}
		r.start(l)
		for range endings {
			receive(t, "a start", started)
		}
		r.declareDead(l.Identity(), payloads...)
		for range endings {
			require.ErrorIs(t, receive(t, "a cause", causes), fetch.ErrOwnershipLost)
		}
		r.eventually("the second runs", func() bool { return r.counter(r.keys.Processed()) == "10" })
		require.Empty(t, r.counter(r.keys.Failed()))
		for _, key := range []string{r.keys.Retry(), r.keys.Dead(), r.keys.Schedule()} {
			require.Empty(t, r.set(key))
		}
	})
}
