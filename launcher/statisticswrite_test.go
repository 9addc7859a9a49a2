package launcher

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// A failingClient answers each call with an error, and notes the calls while it has none.
type failingClient struct {
	driver.Client
	err   error
	calls []driver.Call
}

func (c *failingClient) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	if c.err == nil {
		c.calls = append(c.calls, calls...)
	}
	replies := make([]driver.Reply, len(calls))
	for i := range replies {
		replies[i].Err = c.err
	}
	return replies
}

// runs is how many runs of class A the calls add.
func (c *failingClient) runs() []string { return c.counts("A|p") }

// counts is what the calls add to a field.
func (c *failingClient) counts(field string) (counts []string) {
	for _, call := range c.calls {
		if at := slices.Index(call.Args, field); at >= 0 {
			counts = append(counts, call.Args[at+1])
		}
	}
	return counts
}

func TestStatisticsThatCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	const logged = "statistics of classes incomplete"
	for name, c := range map[string]struct {
		err    error
		outage bool
		then   []string // runs in the next call
		logs   int
	}{
		"not sent: they are kept":                 {&driver.NotSentError{Err: errors.New("away")}, true, []string{"3"}, 0},
		"perhaps written: they are dropped":       {&driver.UncertainError{Err: errors.New("lost")}, true, []string{"1"}, 0},
		"a full Redis is no outage":               {driver.NewServerError("OOM command not allowed"), false, []string{"1"}, 0},
		"a denied command does not deny the rest": {driver.NewServerError("NOPERM no"), false, []string{"1"}, 1},
		"an imitation lacks the command":          {driver.NewServerError("ERR unknown command `BITFIELD`"), false, []string{"1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text drivertest.Buffer
			log := slog.New(logbook.JSON(&text, slog.LevelInfo))
			client := &failingClient{err: c.err}
			l, err := New(Config{Client: client, Log: log})
			require.NoError(t, err)
			for range 2 {
				l.ran(t, "A")
				require.Equal(t, c.outage, l.shards[0].writeStatistics(t.Context(), client) != nil)
			}
			client.err = nil
			l.ran(t, "A")
			require.NoError(t, l.shards[0].writeStatistics(t.Context(), client))
			require.Equal(t, c.then, client.runs())
			require.Equal(t, c.then, client.counts("default|p"), "of its queue as of its class")
			require.Equal(t, c.logs, strings.Count(text.String(), logged))
			require.NoError(t, l.shards[0].report.Denied())
			client.calls = nil
			require.NoError(t, l.shards[0].writeStatistics(t.Context(), client))
			require.Empty(t, client.calls, "nothing has been counted since")
		})
	}
}

// ran counts one successful run.
func (l *Launcher) ran(t *testing.T, class string) {
	t.Helper()
	parsed, err := job.Parse(job.Draft{Class: class, EnqueuedAt: time.Now()}.Encode())
	require.NoError(t, err)
	l.shards[0].statistics.countRun(&run{Run: &fetch.Run{Queue: "default"}, job: parsed, startedAt: time.Now(), outcome: job.Done()}, &lua.Clock{})
}

// Sidekiq's readers divide the time by the runs that did not fail, and so does inspect.
func TestARunIsTimedUnlessItFailed(t *testing.T) {
	t.Parallel()
	parsed, err := job.Parse(job.Draft{Class: "A", EnqueuedAt: time.Now()}.Encode())
	require.NoError(t, err)
	payload, met := parsed.Raw(), map[job.Exit]bool{}
	for _, c := range []struct {
		outcome           job.Outcome
		processed, failed uint64
	}{
		{job.Done(), 1, 0}, {job.Retried(payload, time.Second), 1, 1}, {job.Died(payload), 1, 1}, {job.Discarded(false), 1, 0}, {job.Discarded(true), 1, 1},
		{job.Expired(true), 1, 1}, {job.Expired(false), 0, 0}, {job.Cancelled(), 0, 0}, {job.Snoozed(payload, time.Second), 0, 0}, {job.Requeued(), 0, 0}, {job.Waits(time.Second), 0, 0},
	} {
		var s statistics
		s.countRun(&run{Run: &fetch.Run{Queue: "default"}, job: parsed, startedAt: time.Now(), outcome: c.outcome}, &lua.Clock{})
		counts, timed := s.list[0].RunCounts, uint64(0)
		for _, n := range counts.Took.Buckets {
			timed += n
		}
		exit := c.outcome.Exit()
		require.Equal(t, []uint64{c.processed, c.failed}, []uint64{counts.Processed, counts.Failed}, exit)
		require.Equal(t, counts.Processed-counts.Failed, timed, exit)
		require.Equal(t, uint64(1), counts.Exits[slices.Index(job.Exits[:], exit)])
		met[exit] = true
	}
	require.Len(t, met, len(job.Exits), "an exit is missing here")
}

func TestCountingARunAllocatesNothing(t *testing.T) {
	parsed, err := job.Parse(job.Draft{Class: "A", EnqueuedAt: time.Now()}.Encode())
	require.NoError(t, err)
	var s statistics
	r := &run{Run: &fetch.Run{Queue: "default"}, job: parsed, startedAt: time.Now(), outcome: job.Done()}
	require.Zero(t, testing.AllocsPerRun(100, func() { s.countRun(r, &lua.Clock{}) }))
}

func BenchmarkCountARun(b *testing.B) {
	parsed, err := job.Parse(job.Draft{Class: "A", EnqueuedAt: time.Now()}.Encode())
	require.NoError(b, err)
	var s statistics
	r := &run{Run: &fetch.Run{Queue: "default"}, job: parsed, startedAt: time.Now(), outcome: job.Done()}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.countRun(r, &lua.Clock{})
		}
	})
}

func TestRecoveredJobsAreParsedOnlyForHooks(t *testing.T) {
	payload := job.Draft{Class: "A", Queue: "mail", EnqueuedAt: time.Now()}.Encode()
	entries := slices.Repeat([]lua.Orphan{{Old: payload, New: payload, Home: lua.HomeQueue}}, 100)
	recover := func(l *Launcher) func() {
		s := &shard{launcher: l}
		return func() { s.recovered("vm:1:aa", []lua.Orphans{{Queue: "mail", Entries: entries}}) }
	}
	require.Zero(t, testing.AllocsPerRun(10, recover(&Launcher{})))
	l := &Launcher{}
	l.hooks.over.Store(true) // nothing is called
	l.OnOrphan(func(Orphan) {})
	require.GreaterOrEqual(t, testing.AllocsPerRun(10, recover(l)), float64(len(entries)))
}
