package belay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
)

func TestInfoDescribesTheRun(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	server := newServer(t, client, belay.ServerConfig{Retries: 7})
	seen := make(chan belay.RunInfo, 1)
	note := func(ctx context.Context, _ int) error {
		info, ok := belay.Info(ctx)
		require.True(t, ok)
		seen <- info
		return nil
	}
	counted := belay.Define[int]("Counted", belay.Meta("app", "shop"))
	counted.Handle(server, note)
	running(t, server)
	before := time.Now().Add(-time.Minute)
	for _, c := range []struct {
		option belay.JobOption
		want   int
	}{
		{belay.Queue("default"), 8}, {belay.Retries(2), 3}, {belay.Retries(0), 1}, {belay.NoRetry(), 1}, {belay.RetryFor(time.Hour), 0},
	} {
		receipt, err := counted.Enqueue(t.Context(), client, 1, c.option, belay.Meta("request", "r-1"))
		require.NoError(t, err)
		info := awaitValue(t, "the run", seen)
		require.WithinRange(t, info.CreatedAt, before, time.Now().Add(time.Minute))
		require.WithinRange(t, info.EnqueuedAt, before, time.Now().Add(time.Minute))
		info.CreatedAt, info.EnqueuedAt = time.Time{}, time.Time{}
		require.Equal(t, belay.RunInfo{
			JID: receipt.JID, Class: "Counted", Queue: "default", Attempt: 1, MaxAttempts: c.want, Identity: server.Identity(),
			Meta: map[string]string{"app": "shop", "request": "r-1"},
		}, info)
	}
	require.Nil(t, belay.Define[int]("Plain").Job(1).Meta)
	require.Equal(t, map[string]string{"app": "shop"}, counted.Job(1).Meta, "what one push adds is its own")
	_, ok := belay.Info(t.Context())
	require.False(t, ok)
}

// The timeout of a push comes before that of its class, and that before the server's.
func TestTheNearestTimeoutEndsARun(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	server := newServer(t, client, belay.ServerConfig{Timeout: time.Hour})
	left := make(chan time.Duration, 1)
	until := func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline).Round(time.Minute)
	}
	typed := func(ctx context.Context, _ int) error { until(ctx); return nil }
	raw := func(ctx context.Context, _ *belay.Job) error { until(ctx); return nil }
	plain, own := belay.Define[int]("Plain"), belay.Define[int]("Own", belay.Timeout(time.Minute))
	short := belay.Define[int]("Short", belay.Retries(0))
	server.HandleRaw("Raw", raw, belay.Timeout(2*time.Minute))
	server.HandleUnknown(raw, belay.Timeout(3*time.Minute))
	plain.Handle(server, typed)
	own.Handle(server, typed)
	short.Handle(server, func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), ctx.Err())
	})
	failed := make(chan error, 1)
	server.OnError(func(_ context.Context, _ *belay.Job, err error) { failed <- err })
	running(t, server)
	for _, c := range []struct {
		of      *belay.Definition[int]
		options []belay.JobOption
		want    time.Duration
	}{
		{plain, nil, time.Hour}, {own, nil, time.Minute}, {own, []belay.JobOption{belay.Timeout(5 * time.Minute)}, 5 * time.Minute},
	} {
		_, err := c.of.Enqueue(t.Context(), client, 1, c.options...)
		require.NoError(t, err)
		require.Equal(t, c.want, awaitValue(t, "the run", left))
	}
	for class, want := range map[string]time.Duration{"Raw": 2 * time.Minute, "Unknown": 3 * time.Minute} {
		_, err := client.Push(t.Context(), belay.RawJob{Class: class})
		require.NoError(t, err)
		require.Equal(t, want, awaitValue(t, "the run", left))
	}
	_, err := short.Enqueue(t.Context(), client, 1, belay.Timeout(20*time.Millisecond))
	require.NoError(t, err)
	err = awaitValue(t, "the failure", failed)
	require.ErrorIs(t, err, belay.ErrTimeout)
	require.ErrorContains(t, err, "timed out after 20ms")

	require.Zero(t, own.Job(1).Timeout, "the timeout of a class is not written into its jobs")
	_, err = own.Enqueue(t.Context(), client, 1, belay.Timeout(0))
	require.ErrorContains(t, err, "timeout 0s: it must be at least 1ms")
	for _, option := range []belay.JobOption{belay.Timeout(-1), belay.ExpiresIn(-1), belay.Deadline(-1), belay.Track(-1)} {
		_, err = own.Enqueue(t.Context(), client, 1, option)
		require.Equal(t, 1, strings.Count(err.Error(), "must be at least 1ms"), "%v", err)
	}
	_, err = belay.NewServer(client, belay.ServerConfig{Timeout: -1})
	require.ErrorContains(t, err, "timeout -1ns")
}

// A handler learns of a stop before its context ends.
func TestStoppingIsClosedBeforeTheContextEnds(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	server := newServer(t, client, belay.ServerConfig{})
	long := belay.Define[int]("Long")
	began, ended := make(chan bool, 1), make(chan error, 1)
	long.Handle(server, func(ctx context.Context, _ int) error {
		select {
		case <-belay.Stopping(ctx):
			t.Error("the stop has not begun")
		default:
		}
		began <- true
		<-belay.Stopping(ctx)
		ended <- ctx.Err()
		return nil
	})
	done := running(t, server)
	_, err := long.Enqueue(t.Context(), client, 1)
	require.NoError(t, err)
	awaitValue(t, "the run", began)
	server.Stop()
	require.NoError(t, awaitValue(t, "the stop", ended))
	require.NoError(t, awaitValue(t, "the end", done))
	require.Nil(t, belay.Stopping(t.Context()), "outside of a run")
}

// With NamedArgs fields may be moved, added and left out, as in any JSON object.
func TestNamedArgsAreOneObject(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	type newer struct {
		Team   string
		UserID int64 `json:"user_id"`
	}
	older := belay.Define[struct {
		UserID int64 `json:"user_id"`
	}]("Welcome", belay.NamedArgs())
	welcome := belay.Define[newer]("Welcome", belay.NamedArgs(), belay.Unique(belay.UntilExecuting),
		belay.UniqueBy(func(args newer) any { return args.UserID }))
	_, err := older.Enqueue(t.Context(), client, struct {
		UserID int64 `json:"user_id"`
	}{42})
	require.NoError(t, err)
	stored := client.Driver().Do(t.Context(), driver.Command("LINDEX", client.Config().Prefix+":queue:default", "0"))[0]
	require.Contains(t, stored.Value, `"args":[{"user_id":42}]`)

	server := newServer(t, client, belay.ServerConfig{})
	seen := make(chan newer, 1)
	welcome.Handle(server, func(_ context.Context, args newer) error { seen <- args; return nil })
	first, err := welcome.Enqueue(t.Context(), client, newer{"a", 7})
	require.NoError(t, err)
	second, err := welcome.Enqueue(t.Context(), client, newer{"b", 7})
	require.NoError(t, err)
	require.Equal(t, first.JID, second.Holder)
	running(t, server)
	require.ElementsMatch(t, []newer{{"", 42}, {"a", 7}}, []newer{awaitValue(t, "a run", seen), awaitValue(t, "a run", seen)})
	require.PanicsWithValue(t, `belay: Define "A": int is not a struct: named arguments are its fields`,
		func() { belay.Define[int]("A", belay.NamedArgs()) })
}

// A handler is found by the class that a job wraps, also when a program other than Rails wrapped it.
func TestARetryOfAWrappedJobFindsItsHandler(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	server := newServer(t, client, belay.ServerConfig{})
	runs := make(chan string, 2)
	server.HandleRaw("Inner", func(_ context.Context, j *belay.Job) error {
		runs <- j.Class()
		if _, failed := j.RetryCount(); failed {
			return nil
		}
		return belay.RetryIn(0, errors.New("boom"))
	})
	pushed := belay.RawJob{Class: "OurWrapper", Args: []any{1}}
	belay.Field("wrapped", "Inner")(&pushed)
	_, err := client.Push(t.Context(), pushed)
	require.NoError(t, err)
	running(t, server)
	require.Equal(t, "OurWrapper", awaitValue(t, "the first run", runs))
	require.Equal(t, "OurWrapper", awaitValue(t, "the retry", runs))
}
