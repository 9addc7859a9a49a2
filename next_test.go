package belay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

func TestASequenceRunsOneJobAfterTheOther(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		extract := belay.DefineResult[string, []int]("Extract", belay.Track(time.Hour))
		load := belay.DefineResult[string, int]("Load", belay.Track(time.Hour), belay.Queue("load"))
		report := belay.Define[string]("Report")
		server := newServer(t, client, belay.ServerConfig{Queues: belay.Queues("default", "load")})
		reported, audited := make(chan string, 9), make(chan string, 9)
		extract.Handle(server, func(ctx context.Context, _ string) ([]int, error) {
			_, err := belay.Previous[int](ctx)
			if !errors.Is(err, belay.ErrNoPrevious) {
				return nil, fmt.Errorf("it is the first: %w", err)
			}
			return []int{3, 4}, nil
		})
		load.Handle(server, func(ctx context.Context, _ string) (int, error) {
			rows, err := extract.Previous(ctx)
			return rows[0] + rows[1], err
		})
		report.Handle(server, func(ctx context.Context, name string) error {
			sum, err := belay.Previous[int](ctx)
			info, _ := belay.Info(ctx)
			if name == "audit" {
				audited <- fmt.Sprint(info.After, err)
				return nil
			}
			reported <- fmt.Sprint(name, sum, err)
			return nil
		})
		running(t, server)
		first := extract.Job("day", belay.Then(report.Job("audit")))
		receipt, err := client.Push(ctx, belay.Sequence(first, load.Job("day"), report.Job("sum of ")))
		require.NoError(t, err)
		require.Equal(t, "sum of 7 <nil>", awaitValue(t, "the report", reported))
		require.Equal(t, receipt.JID+"belay: read the result of job "+receipt.JID+": json: cannot unmarshal array into Go value of type int",
			awaitValue(t, "the audit", audited))
		require.Len(t, first.Then, 1, "Sequence has changed none of its arguments")
	})
}

// The reason why a job has no result is what its next job needs to say.
func TestPreviousSaysWhyThereIsNoResult(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		long := belay.DefineResult[string, string]("Long", belay.Track(time.Hour))
		next := belay.Define[string]("Next")
		server := newServer(t, client, belay.ServerConfig{})
		long.Handle(server, func(context.Context, string) (string, error) { return strings.Repeat("x", 70_000), nil })
		read := make(chan error, 9)
		next.Handle(server, func(ctx context.Context, _ string) error {
			_, err := long.Previous(ctx)
			read <- err
			return nil
		})
		running(t, server)
		_, err := long.Enqueue(t.Context(), client, "", belay.Then(next.Job("")))
		require.NoError(t, err)
		err = awaitValue(t, "the next job", read)
		require.ErrorIs(t, err, belay.ErrNoPrevious)
		require.ErrorContains(t, err, "done: ")
		require.ErrorContains(t, err, "70002 bytes")
	})
}

func TestNextJobsFollowOnlyWhatIsDone(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var well atomic.Bool
		first := belay.Define[string]("First", belay.Retries(1), belay.Track(time.Hour), belay.Backoff(func(int, error, *belay.Job) time.Duration {
			return time.Millisecond
		}))
		next := belay.Define[string]("Next")
		server := newServer(t, client, belay.ServerConfig{})
		ran := make(chan string, 9)
		first.Handle(server, func(ctx context.Context, how string) error {
			info, _ := belay.Info(ctx)
			switch {
			case how == "dies" && !well.Load(), how == "fails once" && info.Attempt == 1:
				return errors.New("not yet")
			case how == "is discarded":
				return belay.Discard(nil)
			}
			return nil
		})
		next.Handle(server, func(_ context.Context, after string) error {
			ran <- after
			return nil
		})
		ended := running(t, server)
		push := func(how string) string {
			receipt, err := first.Enqueue(ctx, client, how, belay.Then(next.Job(how)))
			require.NoError(t, err)
			return receipt.JID
		}
		_, err := client.Wait(ctx, push("is discarded"))
		require.ErrorAs(t, err, new(*belay.EndedError))
		dead := push("dies")
		_, err = client.Wait(ctx, dead)
		require.ErrorAs(t, err, new(*belay.EndedError))
		_, err = client.Wait(ctx, push("fails once"))
		require.NoError(t, err)
		require.Equal(t, "fails once", awaitValue(t, "the next job", ran), "each next job was enqueued once, and no job's that is not done")
		well.Store(true)
		retry := inspect.Task{Home: inspect.Dead(), Action: inspect.Retry, Selection: inspect.Selection{IDs: []string{dead}}}
		counts, err := inspect.New(client).Act(ctx, retry, nil)
		require.NoError(t, err)
		require.Equal(t, 1, counts.Moved)
		require.Equal(t, "dies", awaitValue(t, "the next job of the job that an operator has retried", ran))
		server.Stop()
		require.NoError(t, awaitValue(t, "the server's end", ended))
		require.Empty(t, ran)
		left := client.Driver().Do(ctx, driver.Command("LLEN", lua.NewKeys(client.Config().Prefix).Queue("default")))[0]
		require.NoError(t, left.Err)
		require.Zero(t, left.Value, "each next job was enqueued once")
	})
}

func TestResultsOfMembersAreFoundByTheirNumber(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		const rows = 100
		square, sum := belay.DefineResult[int, int]("Square", belay.Track(time.Hour)), belay.Define[int]("Sum")
		server := newServer(t, client, belay.ServerConfig{})
		square.Handle(server, func(_ context.Context, n int) (int, error) { return n * n, nil })
		sums := make(chan string, 1)
		sum.Handle(server, func(ctx context.Context, rows int) error {
			jids := make([]string, rows)
			for n := range jids {
				jids[n] = belay.JIDOf("import 42", n)
			}
			results, err := client.TrackedMany(ctx, jids...)
			texts := make([]string, len(results))
			for n, result := range results {
				texts[n] = string(result.Result)
			}
			sums <- fmt.Sprintf("%s %s %v", texts[2], texts[99], err)
			return nil
		})
		running(t, server)
		_, err := belay.NewBatch(ctx, client, belay.BatchConfig{OnSuccess: sum.Job(rows)}, func(b *belay.Batch) error {
			jobs := make([]belay.RawJob, rows)
			for n := range jobs {
				jobs[n] = square.Job(n, belay.InBatch(b), belay.JID(belay.JIDOf("import 42", n)))
			}
			_, err := client.PushMany(ctx, slices.Values(jobs))
			return err
		})
		require.NoError(t, err)
		require.Equal(t, "4 9801 <nil>", awaitValue(t, "the sum", sums))
	})
}

func TestJIDOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "9a7188973b0d7429e6c368d6", belay.JIDOf("import 42", 7), "it never changes: programs find their jobs by it")
	require.NotEqual(t, belay.JIDOf("a", 11), belay.JIDOf("a1", 1))
}

// The time in which a next job must start or be done begins when it is enqueued, and not at the push of the job
// before.
func TestLimitsOfNextJobsBeginWithThem(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		first := belay.Define[string]("First", belay.Track(time.Hour))
		next := belay.Define[string]("Next", belay.Queue("held"))
		server := newServer(t, client, belay.ServerConfig{})
		first.Handle(server, func(context.Context, string) error { return nil })
		receipt, err := first.Enqueue(ctx, client, "", belay.Then(next.Job("", belay.JID("the-next-one"), belay.ExpiresIn(time.Hour), belay.Deadline(2*time.Hour))))
		require.NoError(t, err)
		operator := inspect.New(client)
		pushed, err := operator.Now(ctx)
		require.NoError(t, err)
		running(t, server)
		_, err = client.Wait(ctx, receipt.JID)
		require.NoError(t, err)
		ended, err := operator.Now(ctx)
		require.NoError(t, err)
		found, err := operator.Find(ctx, "the-next-one", nil)
		require.NoError(t, err)
		require.Equal(t, inspect.PlaceQueue, found.Place)
		found.Entry.Describe()
		details := found.Entry.Details
		between := func(at time.Time, limit time.Duration) {
			const rounded = time.Second
			require.WithinRange(t, at, pushed.Add(limit-rounded), ended.Add(limit+rounded))
		}
		between(details.StartBy, time.Hour)
		between(details.Deadline, 2*time.Hour)
	})
}
