package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// minutes sums up what Redis has of a class, over the minutes since an instant.
func (r *rig) minutes(class string, since time.Time) (processed, failed int, runs, waits lua.Histogram) {
	r.t.Helper()
	for at := since.Add(-time.Minute); at.Before(time.Now().Add(time.Minute)); at = at.Add(time.Minute) {
		fields, _ := r.do("HMGET", r.keys.ClassMinute(at), class+"|p", class+"|f").([]any)
		for i, count := range []*int{&processed, &failed} {
			text, _ := fields[i].(string)
			n := 0
			_, _ = fmt.Sscan(text, &n)
			*count += n
		}
		replies := r.client.Do(r.t.Context(), r.keys.ReadHistograms(class, at)...)
		run, _ := replies[0].Value.(string)
		wait, _ := replies[1].Value.(string)
		more, longer := lua.RunsOf(run, 0), lua.WaitsOf(wait)
		for i := range more {
			runs[i] += more[i]
			waits[i] += longer[i]
		}
	}
	return processed, failed, runs, waits
}

func TestAWorkerWritesTheStatisticsOfItsClasses(t *testing.T) {
	eachClient(t, func(t *testing.T, r *rig) {
		began := time.Now()
		l := r.build(r.config())
		l.Handle("Quick", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
		l.Handle("Broken", func(context.Context, *job.Job) error { return errors.New("no") }, launcher.Class{})
		l.Handle("a|b", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
		payload := job.Draft{Class: "Quick", Queue: "default", ArgsJSON: "[]", EnqueuedAt: time.Now().Add(-4 * time.Second)}.Encode()
		r.do("LPUSH", r.keys.Queue("default"), payload)
		r.push("Quick", "[]")
		r.push("Broken", "[]")
		r.push("a|b", "[]")
		w := r.start(l)
		r.eventually("the runs", func() bool { return r.counter(r.keys.Processed()) == "4" })
		l.Stop()
		w.wait(t)

		processed, failed, runs, waits := r.minutes("Quick", began)
		require.Equal(t, []int{2, 0}, []int{processed, failed})
		require.Equal(t, []uint64{2, 2}, []uint64{runs.Count(), waits.Count()})
		require.Equal(t, uint64(2), runs[0], "the first bucket ends at 20 ms")
		require.Equal(t, uint64(1), waits[14]+waits[15], "4 s are in a later one")
		processed, failed, runs, waits = r.minutes("Broken", began)
		require.Equal(t, []int{1, 1}, []int{processed, failed})
		require.Equal(t, []uint64{0, 1}, []uint64{runs.Count(), waits.Count()}, "only successful runs are timed")
		processed, _, _, _ = r.minutes("a_b", began)
		require.Equal(t, 1, processed)

		counts := l.Runs()
		require.Len(t, counts, 3)
		at := slices.IndexFunc(counts, func(c launcher.RunCounts) bool { return c.Class == "Broken" })
		require.Equal(t, uint64(1), counts[at].Exits[slices.Index(launcher.Exits[:], job.ExitRetry)])
		require.Equal(t, "default", counts[at].Queue)
	})
}

func TestClassNamesWithoutEndAreCountedTogether(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.Concurrency = 50
	l := r.build(cfg)
	l.Handle(launcher.AnyClass, func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	const classes = 1200
	for n := range classes {
		r.push(fmt.Sprint("class ", n), "[]")
	}
	r.push(strings.Repeat("long", 1000), "[]")
	r.start(l)
	r.eventually("the runs", func() bool { return r.counter(r.keys.Processed()) == fmt.Sprint(classes+1) })
	counts := l.Runs()
	require.Len(t, counts, 501)
	var all uint64
	for _, one := range counts {
		all += one.Processed
		require.Less(t, len(one.Class), 300)
	}
	require.Equal(t, uint64(classes+1), all)
	require.Equal(t, launcher.OtherClass, counts[500].Class)
}

func TestCountersOfAWorker(t *testing.T) {
	eachClient(t, func(t *testing.T, r *rig) {
		began, finish := make(chan struct{}), make(chan struct{})
		l := r.build(r.config())
		l.Handle("Slow", func(context.Context, *job.Job) error {
			began <- struct{}{}
			<-finish
			return nil
		}, launcher.Class{})
		payload := r.push("Slow", "[]")
		r.start(l)
		receive(t, "the run", began)
		counters := l.Counters()
		require.Equal(t, []int{1, 4}, []int{counters.Busy, counters.Concurrency})
		trips := uint64(0)
		for _, n := range counters.RoundTrips.Buckets {
			trips += n
		}
		require.Positive(t, trips)
		require.Positive(t, counters.RoundTrips.Sum)

		r.do("LREM", r.keys.Working("default", l.Identity()), "1", payload) // as a recovery does
		close(finish)
		r.eventually("the loss", func() bool { return l.Counters().Lost == 1 })
	})
}
