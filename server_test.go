package belay_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/rueidisdriver"
)

func openShared(t *testing.T, options ...belay.ClientOption) *belay.Client {
	t.Helper()
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), append(options, belay.Prefix(prefix))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("never shows the password", func(t *testing.T) {
		t.Parallel()
		// Nobody listens on port 1; the others are no URLs, or name a server that asks for another password.
		guarded := strings.Replace(drivertest.Start(t, "--requirepass", "other").URL(), "redis://", "redis://:s3cr3t@", 1)
		for _, url := range []string{"redis://:s3cr3t@127.0.0.1:1/0", "redis://user:s3cr3t@%zz", "s3cr3t://x", guarded} {
			_, err := belay.Open(t.Context(), url)
			require.ErrorContains(t, err, "belay: open: ")
			require.NotContains(t, err.Error(), "s3cr3t")
		}
	})
	t.Run("says what is wrong with its options", func(t *testing.T) {
		t.Parallel()
		_, err := belay.Open(t.Context(), "redis://127.0.0.1:1", belay.PayloadLimit(-1))
		require.ErrorContains(t, err, "payload limit -1")
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	t.Run("names every mistake of its options at Run", func(t *testing.T) {
		t.Parallel()
		server := belay.NewServer(openShared(t), belay.Concurrency(0), belay.QueueWeight("a", 0), belay.Queues(""),
			belay.Heartbeat(time.Second, time.Second))
		server.HandleClass("A", func(context.Context, *belay.Job) error { return nil })
		err := server.Run(t.Context())
		for _, part := range []string{"concurrency 0", `queue "a": weight 0`, "the name of the queue is empty", "ttl 1s"} {
			require.ErrorContains(t, err, part)
		}
		require.Panics(t, func() { belay.NewServer(nil) })
	})

	t.Run("runs what was enqueued, in the client's keyspace and unit, through either driver", func(t *testing.T) {
		t.Parallel()
		d, err := rueidisdriver.Open(drivertest.Redis(t).URL())
		require.NoError(t, err)
		ours := openShared(t, belay.Millis())
		theirs, err := belay.NewClient(d, belay.Prefix(ours.Config().Prefix))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, theirs.Close()) })

		greet := belay.Define[struct{ Name string }]("Greet", belay.Queue("mail"), belay.Timeout(time.Minute))
		heard := make(chan string, 3)
		server := belay.NewServer(theirs, belay.Queues("mail"), belay.Concurrency(2), belay.ShutdownTimeout(time.Second))
		greet.Handle(server, func(ctx context.Context, args struct{ Name string }) error {
			if _, limited := ctx.Deadline(); !limited {
				return errors.New("the definition's timeout does not hold")
			}
			heard <- args.Name
			return nil
		})
		wrapped := make(chan string, 3)
		server.Use(func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				raw, _ := j.Field("created_at")
				wrapped <- raw
				return next(ctx, j)
			}
		})
		done := make(chan error, 1)
		go func() { done <- server.Run(t.Context()) }()

		receipts, err := greet.EnqueueMany(t.Context(), ours, slices.Values([]struct{ Name string }{{"a"}, {"b"}}))
		require.NoError(t, err)
		require.Len(t, receipts, 2)
		require.ElementsMatch(t, []string{"a", "b"}, []string{<-heard, <-heard})
		require.Regexp(t, `^\d{13}$`, <-wrapped, "milliseconds")
		require.NotEmpty(t, server.Identity())
		server.Quiet()
		server.Stop()
		require.NoError(t, <-done)
	})

	t.Run("fails a job whose arguments do not fit, and says why", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		typed := belay.Define[struct{ N int }]("Typed", belay.MaxRetries(0))
		server := belay.NewServer(client)
		typed.Handle(server, func(context.Context, struct{ N int }) error { return errors.New("it should not have run") })
		told := make(chan error, 1)
		server.OnError(func(_ context.Context, _ *belay.Job, err error) { told <- err })
		done := make(chan error, 1)
		go func() { done <- server.Run(t.Context()) }()

		_, err := client.Push(t.Context(), belay.Item{Class: "Typed", Args: []any{1, json.RawMessage(`{}`)}})
		require.NoError(t, err)
		require.EqualError(t, <-told, "read the arguments of Typed: the job has 2, struct { N int } takes at most 1")
		server.Stop()
		require.NoError(t, <-done)
		retried := client.Driver().Do(t.Context(), driver.Command("ZCARD", client.Config().Prefix+":retry"))[0]
		require.Equal(t, driver.Reply{Value: int64(1)}, retried, "it says nothing of its retries: the server's policy holds")
	})

	t.Run("tells mistakes of the program by a panic", func(t *testing.T) {
		t.Parallel()
		server := belay.NewServer(openShared(t))
		d := belay.Define[int]("A")
		require.Panics(t, func() { d.Handle(server, nil) })
		d.Handle(server, func(context.Context, int) error { return nil })
		require.Panics(t, func() { d.Handle(server, func(context.Context, int) error { return nil }) })
	})
}
