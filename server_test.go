package belay_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// openShared opens a client in a keyspace of its own.
func openShared(t *testing.T) *belay.Client {
	t.Helper()
	return openWith(t, belay.ClientConfig{})
}

func openWith(t *testing.T, cfg belay.ClientConfig) *belay.Client {
	t.Helper()
	cfg.Prefix = strings.TrimSuffix(drivertest.Prefix(t), ":")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("never shows the password", func(t *testing.T) {
		t.Parallel()
		// No server listens on port 1; the others are no URLs, or name a server that asks for another password.
		guarded := strings.Replace(drivertest.Start(t, "--requirepass", "other").URL(), "redis://", "redis://:s3cr3t@", 1)
		for _, url := range []string{"redis://:s3cr3t@127.0.0.1:1/0", "redis://user:s3cr3t@%zz", "s3cr3t://x", guarded} {
			_, err := belay.Open(t.Context(), url, nil)
			require.ErrorContains(t, err, "belay: open: ")
			require.NotContains(t, err.Error(), "s3cr3t")
		}
	})
	t.Run("says what is wrong with its config", func(t *testing.T) {
		t.Parallel()
		_, err := belay.Open(t.Context(), "redis://127.0.0.1:1", &belay.ClientConfig{PayloadLimit: -1})
		require.ErrorContains(t, err, "payload limit -1")
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	t.Run("names every mistake of its config at once", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			cfg  belay.ServerConfig
			says []string
		}{
			{belay.ServerConfig{Concurrency: -1, Queues: belay.Queues(""), Heartbeat: time.Second, TTL: time.Second},
				[]string{"concurrency -1", "the name of the queue is empty", "ttl 1s"}},
			{belay.ServerConfig{Queues: []belay.QueueWeight{{Name: "a", Weight: -1}}, PollInterval: 1}, []string{`queue "a": a weight`, "poll 1ns"}},
		} {
			_, err := belay.NewServer(openShared(t), c.cfg)
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
		}
	})

	t.Run("runs what was enqueued, in the client's keyspace and unit, through either driver", func(t *testing.T) {
		t.Parallel()
		d, err := rueidisdriver.Open(drivertest.Redis(t).URL())
		require.NoError(t, err)
		producer := openWith(t, belay.ClientConfig{Unit: job.Millis})
		consumer, err := belay.NewClient(d, &belay.ClientConfig{Prefix: producer.Config().Prefix})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, consumer.Close()) })

		greet := belay.Define[struct{ Name string }]("Greet", belay.Queue("mail"), belay.Timeout(time.Minute))
		received := make(chan string, 3)
		server := newServer(t, consumer, belay.ServerConfig{Queues: belay.Queues("mail"), Concurrency: 2, ShutdownTimeout: time.Second})
		greet.Handle(server, func(ctx context.Context, args struct{ Name string }) error {
			if _, limited := ctx.Deadline(); !limited {
				return errors.New("the definition's timeout does not hold")
			}
			received <- args.Name
			return nil
		})
		wrapped := make(chan string, 3)
		server.Use("note", func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				raw, _ := j.Field("created_at")
				wrapped <- raw
				return next(ctx, j)
			}
		})
		done := make(chan error, 1)
		go func() { done <- server.Run(t.Context()) }()

		receipts, err := greet.EnqueueMany(t.Context(), producer, slices.Values([]struct{ Name string }{{"a"}, {"b"}}))
		require.NoError(t, err)
		require.Len(t, receipts, 2)
		require.ElementsMatch(t, []string{"a", "b"}, []string{<-received, <-received})
		require.Regexp(t, `^\d{13}$`, <-wrapped, "milliseconds")
		require.NotEmpty(t, server.Identity())
		server.Quiet()
		server.Stop()
		require.NoError(t, <-done)
	})

	t.Run("fails a job whose arguments do not fit, and says why", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		typed := belay.Define[struct{ N int }]("Typed", belay.Retries(0))
		server := newServer(t, client, belay.ServerConfig{})
		typed.Handle(server, func(context.Context, struct{ N int }) error { return errors.New("it should not have run") })
		failures := make(chan error, 1)
		server.OnError(func(_ context.Context, _ *belay.Job, err error) { failures <- err })
		done := make(chan error, 1)
		go func() { done <- server.Run(t.Context()) }()

		_, err := client.Push(t.Context(), belay.RawJob{Class: "Typed", Args: []any{1, json.RawMessage(`{}`)}})
		require.NoError(t, err)
		failed := <-failures
		require.EqualError(t, failed, "read the arguments of Typed: the job has 2, struct { N int } takes at most 1")
		var argErr *belay.ArgumentError
		require.ErrorAs(t, failed, &argErr)
		server.Stop()
		require.NoError(t, <-done)
		retried := client.Driver().Do(t.Context(), driver.Command("ZCARD", client.Config().Prefix+":retry"))[0]
		require.Equal(t, driver.Reply{Value: int64(1)}, retried, "it says nothing of its retries: the server's policy holds")
	})

	t.Run("runs what constructors have put into one slice", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		number, word := belay.Define[int]("Number"), belay.Define[string]("Word", belay.Queue("mail"))
		received := make(chan any, 2)
		list := []belay.Registration{
			number.Handler(func(_ context.Context, n int) error { received <- n; return nil }),
			word.Handler(func(_ context.Context, w string) error { received <- w; return nil }),
		}
		server := newServer(t, client, belay.ServerConfig{Queues: belay.Queues("default", "mail")})
		server.Register(list...)
		done := make(chan error, 1)
		go func() { done <- server.Run(t.Context()) }()
		_, err := number.Enqueue(t.Context(), client, 5)
		require.NoError(t, err)
		_, err = word.Enqueue(t.Context(), client, "x")
		require.NoError(t, err)
		require.ElementsMatch(t, []any{5, "x"}, []any{<-received, <-received})
		server.Stop()
		require.NoError(t, <-done)

		again := newServer(t, client, belay.ServerConfig{})
		again.Register(list...)
		const twice = "belay: Handle Number: the class has a handler already"
		require.PanicsWithValue(t, twice, func() { number.Handle(again, func(context.Context, int) error { return nil }) })
		require.PanicsWithValue(t, twice, func() { again.Register(list[0]) })
		require.PanicsWithValue(t, "belay: HandleRaw *: use HandleUnknown", func() { again.HandleRaw("*", idle) })
		again.HandleUnknown(idle)
		require.Panics(t, func() { again.HandleUnknown(idle) })
	})

	t.Run("tells mistakes of the program by a panic", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, openShared(t), belay.ServerConfig{})
		d := belay.Define[int]("A")
		require.Panics(t, func() { d.Handle(server, nil) })
		d.Handle(server, func(context.Context, int) error { return nil })
		require.Panics(t, func() { d.Handle(server, func(context.Context, int) error { return nil }) })
	})
}

// What it takes to enqueue is a definition and a client: no server, no handler.
func TestDefinitionWithoutAHandler(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	welcome := belay.Define[struct {
		UserID   int64
		Template string
	}]("Welcome")
	receipt, err := welcome.Enqueue(t.Context(), client, struct {
		UserID   int64
		Template string
	}{42, "short"})
	require.NoError(t, err)
	require.Equal(t, belay.StatusQueued, receipt.Status)
	read := func(words ...string) driver.Reply {
		words[1] = client.Config().Prefix + ":" + words[1]
		return client.Driver().Do(t.Context(), driver.Command(words...))[0]
	}
	stored := read("LRANGE", "queue:default", "0", "-1").Value.([]any)
	require.Len(t, stored, 1)
	require.Contains(t, stored[0], `"args":[42,"short"],"class":"Welcome"`)

	// A worker that does not know the class, as during a deploy, has the job wait for one that does.
	server := newServer(t, client, belay.ServerConfig{})
	server.HandleRaw("Known", idle)
	failures := make(chan error, 1)
	server.OnError(func(_ context.Context, _ *belay.Job, err error) { failures <- err })
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	require.EqualError(t, <-failures, `no handler is registered for the class "Welcome"`)
	server.Stop()
	require.NoError(t, <-done)
	waiting := read("ZRANGE", "retry", "0", "-1").Value.([]any)
	require.Len(t, waiting, 1)
	require.Contains(t, waiting[0], `"retry_count":0`)
	require.Equal(t, driver.Reply{Value: int64(0)}, read("ZCARD", "dead"))
}

func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	t.Run("draws one after the other, overrides for all, and pushes what was drawn", func(t *testing.T) {
		t.Parallel()
		client := openShared(t)
		number := belay.Define[int]("Number", belay.Queue("low"))
		receipts, err := number.EnqueueMany(t.Context(), client, func(yield func(int) bool) {
			for n := range 300 { // more than one slice
				if !yield(n) {
					return
				}
			}
		}, belay.Queue("high"))
		require.NoError(t, err)
		require.Len(t, receipts, 300)
		length := client.Driver().Do(t.Context(), driver.Command("LLEN", client.Config().Prefix+":queue:high"))[0]
		require.Equal(t, driver.Reply{Value: int64(300)}, length)
	})
	t.Run("of nothing is nothing", func(t *testing.T) {
		t.Parallel()
		receipts, err := belay.Define[int]("Number").EnqueueMany(t.Context(), openShared(t), slices.Values([]int(nil)))
		require.NoError(t, err)
		require.Empty(t, receipts)
	})
	t.Run("stops drawing at a job that cannot be pushed, and says how far it came", func(t *testing.T) {
		t.Parallel()
		drawn := 0
		receipts, err := belay.Define[float64]("Fraction").EnqueueMany(t.Context(), openShared(t), func(yield func(float64) bool) {
			for drawn = 1; yield(map[bool]float64{true: math.NaN()}[drawn == 3]); drawn++ {
			}
		})
		var bulk *belay.BulkError
		require.ErrorAs(t, err, &bulk)
		require.ErrorContains(t, err, "job 3 of the bulk")
		require.Equal(t, 3, bulk.NotPushed)
		require.Len(t, receipts, 3)
		require.Equal(t, 3, drawn)
	})
}

func TestEnqueueSeq(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	fraction := belay.Define[float64]("Fraction", belay.Queue("low"))
	slices := 0
	n, err := fraction.EnqueueSeq(t.Context(), client, func(yield func(float64) bool) {
		for n := range 600 { // more than two slices
			if !yield(map[bool]float64{true: math.NaN()}[n == 3]) {
				return
			}
		}
	}, func(receipts []belay.Receipt, err error) {
		slices++
		require.Equal(t, slices == 1, err != nil, "the slice with the invalid job")
	}, belay.Queue("high"))
	require.Equal(t, 600, n, "an invalid job stops none of the others")
	require.ErrorContains(t, err, "job 4 of the bulk")
	var bulk *belay.BulkError
	require.ErrorAs(t, err, &bulk)
	require.Equal(t, []int{599, 1}, []int{bulk.Queued, bulk.NotPushed})
	require.GreaterOrEqual(t, slices, 3)
	length := client.Driver().Do(t.Context(), driver.Command("LLEN", client.Config().Prefix+":queue:high"))[0]
	require.Equal(t, driver.Reply{Value: int64(599)}, length)

	n, err = fraction.EnqueueSeq(t.Context(), client, func(func(float64) bool) {}, nil)
	require.NoError(t, err)
	require.Zero(t, n)
}
