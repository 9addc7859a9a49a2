package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// A run that could not begin here is no failed run: the job goes back as it was, the queue is left to others
// for a moment, and other queues go on.
func TestARequeuedRunCountsNothingAndLeavesItsQueueToOthers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		l.OnError(func(_ context.Context, j *job.Job, err error) { t.Errorf("%s is reported: %v", j.Class(), err) })
		var payloads []string
		var at []time.Time
		l.Handle("A", func(_ context.Context, j *job.Job) error {
			payloads, at = append(payloads, j.Raw()), append(at, time.Now())
			if len(at) < 3 {
				return fmt.Errorf("run: %w", retry.Requeue(errors.New("no room")))
			}
			return nil
		}, launcher.Class{})
		payload := r.push("A", "[1.0]")
		r.start(l)
		r.eventually("the run", func() bool { return r.counter(r.keys.Processed()) == "1" })
		require.Equal(t, []string{payload, payload, payload}, payloads)
		require.Greater(t, at[2].Sub(at[0]), time.Second, "each time the queue was left to others for a while")
		require.Empty(t, r.counter(r.keys.Failed()))
		for _, key := range []string{r.keys.Retry(), r.keys.Dead(), r.keys.Schedule()} {
			require.Empty(t, r.set(key))
		}
	})
}

// "context deadline exceeded" does not say whose deadline it was: what is stored of a run over its timeout
// does.
func TestAFailureByTimeoutNamesItself(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		failures := make(chan error, 3)
		l.OnError(func(_ context.Context, _ *job.Job, err error) { failures <- err })
		ends := map[string]func(ctx context.Context) error{
			"Plain":   func(ctx context.Context) error { return ctx.Err() },
			"Wrapped": func(ctx context.Context) error { return fmt.Errorf("get it: %w", ctx.Err()) },
			"Own":     func(context.Context) error { return errors.New("boom") },
		}
		for class, end := range ends {
			l.Handle(class, func(ctx context.Context, _ *job.Job) error {
				<-ctx.Done()
				return end(ctx)
			}, launcher.Class{Timeout: 20 * time.Millisecond})
			r.push(class, "[]")
		}
		r.start(l)
		r.eventually("the retries", func() bool { return len(r.set(r.keys.Retry())) == 3 })
		stored := make(map[string]string)
		for _, entry := range r.set(r.keys.Retry()) {
			parsed, err := job.Parse(entry)
			require.NoError(t, err)
			class, _ := parsed.Text("error_class")
			message, _ := parsed.Text("error_message")
			stored[parsed.Class()] = class + "|" + message
		}
		require.Equal(t, map[string]string{
			"Plain": "Timeout|timed out after 20ms", "Wrapped": "Timeout|timed out after 20ms: get it: context deadline exceeded",
			"Own": "error|boom",
		}, stored)
		deadlines := 0
		for range ends {
			if err := receive(t, "an error", failures); errors.Is(err, context.DeadlineExceeded) && errors.Is(err, launcher.ErrTimeout) {
				deadlines++
			}
		}
		require.Equal(t, 2, deadlines)
	})
}
