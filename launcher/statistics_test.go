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

		counts := l.Counters().Runs
		require.Len(t, counts, 3)
		at := slices.IndexFunc(counts, func(c launcher.RunCounts) bool { return c.Class == "Broken" })
		require.Equal(t, uint64(1), counts[at].Exits[slices.Index(job.Exits[:], job.ExitRetry)])
		require.Equal(t, "default", counts[at].Queue)
	})
}

func TestJobsThatNeverRanAreInNoFiguresOfTheirClass(t *testing.T) {
	eachClient(t, func(t *testing.T, r *rig) {
		began := time.Now()
		l := r.build(r.config())
		l.Handle("Quick", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
		for n := range 4 {
			r.push("Quick", "[]")
			late := job.Draft{Class: "Quick", JID: fmt.Sprint("late", n), Queue: "default", ArgsJSON: "[]", EnqueuedAt: time.Now()}.Encode()
			r.do("LPUSH", r.keys.Queue("default"), strings.TrimSuffix(late, "}")+`,"expiry":1700000000}`)
		}
		w := r.start(l)
		r.eventually("the ends", func() bool { return r.counter(r.keys.Processed()) == "8" })
		l.Stop()
		w.wait(t)
		processed, failed, runs, waits := r.minutes("Quick", began)
		require.Equal(t, []int{4, 0}, []int{processed, failed})
		require.Equal(t, []uint64{4, 4}, []uint64{runs.Count(), waits.Count()})
		counts := l.Counters().Runs
		require.Len(t, counts, 1)
		require.Equal(t, uint64(4), counts[0].Exits[slices.Index(job.Exits[:], job.ExitExpired)], "the exits count every job")
	})
}

// As Sidekiq's lib/sidekiq/metrics/tracking.rb: wrapped, else class.
func TestStatisticsNameAClassAsSidekiqDoes(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	l := r.build(r.config())
	l.Handle(launcher.AnyClass, func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	for _, fields := range []string{
		`"class":"Plain"`, `"class":"Own","display_class":"Shown"`, `"class":"Wrapper","wrapped":"Mail::Delivery","display_class":"Welcome#hello"`,
	} {
		r.do("LPUSH", r.keys.Queue("default"), `{"jid":"`+fmt.Sprint(len(fields))+`","args":[],`+fields+`}`)
	}
	r.start(l)
	r.eventually("the runs", func() bool { return r.counter(r.keys.Processed()) == "3" })
	var names []string
	for _, counts := range l.Counters().Runs {
		names = append(names, counts.Class)
	}
	require.ElementsMatch(t, []string{"Plain", "Own", "Mail::Delivery"}, names)
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
	counts := l.Counters().Runs
	require.Len(t, counts, 501)
	var all uint64
	for _, series := range counts {
		all += series.Processed
		require.Less(t, len(series.Class), 300)
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
