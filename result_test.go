package belay_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// The arguments and the result of a job that a test tells how to end.
type (
	order struct{ How string }
	sum   struct {
		Rows  int64
		Notes []string
	}
)

// wish is a tracked class, and deliver its handler.
func wish() *belay.ResultDefinition[order, sum] {
	return belay.DefineResult[order, sum]("Wish", belay.Track(time.Hour), belay.Retries(0))
}

func deliver(ctx context.Context, o order) (sum, error) {
	switch o.How {
	case "takes too long":
		<-ctx.Done()
		return sum{}, context.Cause(ctx)
	case "fails":
		return sum{Rows: 1}, errors.New("no rows")
	case "discards":
		return sum{}, belay.Discard(errors.New("not worth it"))
	case "too large":
		return sum{Notes: []string{strings.Repeat("x", 64<<10)}}, nil
	}
	return sum{Rows: math.MaxInt64, Notes: []string{o.How}}, nil
}

// eachDriver holds a test with both drivers.
func eachDriver(t *testing.T, test func(t *testing.T, client *belay.Client)) {
	t.Helper()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		t.Helper()
		client, err := belay.NewClient(open(t, drivertest.Redis(t).URL()), &belay.ClientConfig{Prefix: strings.TrimSuffix(drivertest.Prefix(t), ":")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		test(t, client)
	})
}

func TestWaitReturnsTheResultOrHowTheJobEnded(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		server, class := newServer(t, client, belay.ServerConfig{}), wish()
		class.Handle(server, deliver)
		waits := func(how string, options ...belay.JobOption) (sum, error) {
			receipt, err := class.Enqueue(ctx, client, order{how}, options...)
			require.NoError(t, err)
			return class.Wait(ctx, client, receipt.JID)
		}
		waiting, err := class.Enqueue(ctx, client, order{"late"})
		require.NoError(t, err)
		early := make(chan sum, 1)
		go func() {
			result, err := class.Wait(ctx, client, waiting.JID)
			if err == nil {
				early <- result
			}
		}()
		running(t, server)
		require.Equal(t, sum{math.MaxInt64, []string{"late"}}, awaitValue(t, "a Wait that began before the run", early))

		result, err := waits("works")
		require.NoError(t, err)
		require.Equal(t, sum{math.MaxInt64, []string{"works"}}, result)

		for how, want := range map[string]belay.TrackState{"fails": belay.TrackDead, "discards": belay.TrackDiscarded} {
			var ended *belay.EndedError
			_, err := waits(how)
			require.ErrorAs(t, err, &ended)
			require.Equal(t, want, ended.State)
			reason := map[string]string{"fails": "no rows", "discards": "not worth it"}[how]
			require.Equal(t, "error"+reason, ended.ErrorClass+ended.ErrorMessage)
			require.EqualError(t, ended, "belay: job "+ended.JID+" is "+string(want)+": error: "+reason)
		}
		var ended *belay.EndedError
		_, err = waits("expires", belay.ExpiresIn(time.Millisecond), belay.In(10*time.Millisecond))
		if !errors.As(err, &ended) || ended.State != belay.TrackExpired {
			require.NoError(t, err, "it was in time")
		}

		_, err = waits("takes too long", belay.Deadline(100*time.Millisecond))
		require.ErrorAs(t, err, &ended)
		require.Contains(t, []belay.TrackState{belay.TrackDead, belay.TrackExpired}, ended.State, "by its deadline")

		result, err = waits("too large")
		require.ErrorContains(t, err, "has no result: it has 65559 bytes as JSON, and the limit is 65536")
		require.Zero(t, result)

		short, end := context.WithTimeout(ctx, 50*time.Millisecond)
		defer end()
		_, err = class.Wait(short, client, "unknown")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A job that waits for a retry shows the reason, cut to a bounded length; one that is done in the end shows none.
func TestTheReasonOfAFailureIsKnownWhileTheJobWaitsForARetry(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		server := newServer(t, client, belay.ServerConfig{})
		var again atomic.Bool
		soon := belay.Backoff(func(int, error, *belay.Job) time.Duration { return 200 * time.Millisecond })
		class := belay.Define[int]("Flaky", belay.Track(time.Hour), soon)
		class.Handle(server, func(context.Context, int) error {
			if again.Load() {
				return nil
			}
			return &staleError{Version: 3, more: strings.Repeat("é", lua.MaxTrackedError)}
		})
		running(t, server)
		receipt, err := class.Enqueue(t.Context(), client, 1)
		require.NoError(t, err)
		var tracked belay.Tracked
		drivertest.Eventually(t, func() bool {
			tracked, err = client.Tracked(t.Context(), receipt.JID)
			require.NoError(t, err)
			return tracked.State == belay.TrackRetrying
		}, patience, tick)
		require.Equal(t, "belay_test.staleError", tracked.ErrorClass)
		require.True(t, strings.HasPrefix(tracked.ErrorMessage, "version 3 is stale é"))
		require.True(t, utf8.ValidString(tracked.ErrorMessage))
		require.InDelta(t, lua.MaxTrackedError, len(tracked.ErrorMessage), 1)
		again.Store(true)
		tracked, err = client.Wait(t.Context(), receipt.JID)
		require.NoError(t, err)
		require.Equal(t, belay.TrackDone, tracked.State)
		require.Empty(t, tracked.ErrorClass+tracked.ErrorMessage)
	})
}

// A tracked job that cannot be run, because of its size or its bytes, is dead for those that wait for it, whether
// it was taken from its queue or was due.
func TestWaitReturnsForAJobThatCannotBeRun(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		redis, prefix := open(t, drivertest.Redis(t).URL()), strings.TrimSuffix(drivertest.Prefix(t), ":")
		client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: prefix})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		small, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: prefix, PayloadLimit: 1000})
		require.NoError(t, err)
		server, class := newServer(t, small, belay.ServerConfig{}), wish()
		class.Handle(server, deliver)
		large := order{strings.Repeat("x", 100_000)}
		taken, err := class.Enqueue(ctx, client, large)
		require.NoError(t, err)
		due, err := class.Enqueue(ctx, client, large, belay.In(time.Millisecond))
		require.NoError(t, err)
		bad := job.Draft{
			Class: "Wish", Queue: "default", JID: job.NewJID(), ArgsJSON: "[\"\xff\"]", CreatedAt: time.Unix(1, 0),
			Extra: []job.Edit{job.SetInt(job.FieldTrack, 60_000)},
		}
		require.NoError(t, redis.Do(ctx, driver.Command("LPUSH", lua.NewKeys(prefix).Queue("default"), bad.Encode()))[0].Err)
		running(t, server)
		for _, jid := range []string{taken.JID, due.JID, bad.JID} {
			_, err := class.Wait(ctx, client, jid)
			var ended *belay.EndedError
			require.ErrorAs(t, err, &ended)
			require.Equal(t, belay.TrackDead, ended.State)
			class := map[bool]string{true: job.UnreadableClass, false: job.TooLargeClass}[jid == bad.JID]
			require.Equal(t, class, ended.ErrorClass)
			require.NotEmpty(t, ended.ErrorMessage)
		}
	})
}

// A job without Track leaves nothing, and one with it leaves what its retention says.
func TestWhatATrackedJobLeaves(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		server, class := newServer(t, client, belay.ServerConfig{}), wish()
		plain := belay.Define[int]("Plain")
		refused := make(chan error, 1)
		plain.Handle(server, func(ctx context.Context, _ int) error {
			belay.Progress(ctx, 1, 2)
			refused <- belay.SetResult(ctx, 1)
			return nil
		})
		class.Handle(server, func(ctx context.Context, o order) (sum, error) {
			belay.Progress(ctx, 1, 2)
			belay.Progress(ctx, 2, 3)
			return deliver(ctx, o)
		})
		running(t, server)
		_, err := plain.Enqueue(t.Context(), client, 1)
		require.NoError(t, err)
		require.ErrorContains(t, awaitValue(t, "the plain run", refused), "not tracked")
		receipt, err := class.Enqueue(t.Context(), client, order{"works"})
		require.NoError(t, err)
		tracked, err := client.Wait(t.Context(), receipt.JID)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), tracked.EndedAt, time.Minute)
		require.WithinDuration(t, tracked.EndedAt, tracked.BeganAt, time.Minute)
		tracked.EndedAt, tracked.BeganAt = time.Time{}, time.Time{}
		require.Equal(t, belay.Tracked{
			JID: receipt.JID, State: belay.TrackDone, Done: 2, Total: 3, Result: []byte(`{"Rows":9223372036854775807,"Notes":["works"]}`),
		}, tracked)

		do := func(words ...string) any {
			reply := client.Driver().Do(t.Context(), driver.Command(words...))[0]
			require.NoError(t, reply.Err)
			return reply.Value
		}
		prefix := client.Config().Prefix + ":"
		require.Equal(t, []any{prefix + "it-" + receipt.JID}, do("KEYS", prefix+"it-*"), "of the job that is not tracked there is nothing")
		require.InDelta(t, 3600, do("TTL", prefix+"it-"+receipt.JID), 60)
	})
}

// A long run shows its progress, and writes it once a second at most, however often it reports. The clock is that of
// a bubble.
func TestProgressIsWrittenOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := belaytest.New(t).Client()
		server, class := newServer(t, client, belay.ServerConfig{}), wish()
		const pause, seconds = 10 * time.Millisecond, 10 // between two reports, and that the run takes
		class.Handle(server, func(ctx context.Context, _ order) (sum, error) {
			for n := range int64(seconds * time.Second / pause) {
				belay.Progress(ctx, n+1, 1<<40)
				time.Sleep(pause)
			}
			return sum{}, nil
		})
		running(t, server)
		receipt, err := class.Enqueue(t.Context(), client, order{"goes on"})
		require.NoError(t, err)
		seen := make(map[int64]bool)
		for {
			tracked, err := client.Tracked(t.Context(), receipt.JID)
			require.NoError(t, err)
			seen[tracked.Done] = true
			if tracked.State == belay.TrackDone {
				require.Equal(t, int64(seconds*time.Second/pause), tracked.Done, "the last report comes with the end")
				break
			}
			time.Sleep(tick)
		}
		// None before the first write; then one a second, and that of the end.
		require.InDelta(t, seconds, len(seen)-1, 1)
	})
}

func TestDefineResultNeedsARetention(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, `belay: DefineResult "Report": no option says how long results are kept; add Track`, func() {
		belay.DefineResult[int, int]("Report")
	})
	require.Panics(t, func() { belay.Define[int]("Report", belay.Track(-time.Hour)) })
	require.Panics(t, func() { wish().Handle(nil, nil) })
}
