package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// ticksOf are the ticks of each periodic job that ran, in order, without the repeats of runs that were
// killed.
func ticksOf(t *testing.T, book *ledger) map[string][]time.Time {
	t.Helper()
	ticks := make(map[string][]time.Time)
	for _, m := range book.marks() {
		at, err := time.Parse(time.RFC3339, m.Class)
		require.NoError(t, err)
		ticks[m.What] = append(ticks[m.What], at)
	}
	for name, all := range ticks {
		slices.SortFunc(all, time.Time.Compare)
		ticks[name] = slices.CompactFunc(all, time.Time.Equal)
	}
	return ticks
}

// Five workers of two versions are killed at random, the poller more often than the others, and started
// again, now as this version and now as that; meanwhile Redis' clock is set an hour ahead, and back. Each of the
// jobs that are due every second runs at each second, but for those of the hour that is passed over; the oracle
// holds that each tick was enqueued once, in order and not before its time. BELAY_PERIODIC is how long, such as
// 10m.
func TestPeriodicTicksThroughKills(t *testing.T) {
	t.Parallel()
	span, err := time.ParseDuration(cmp.Or(os.Getenv("BELAY_PERIODIC"), "12s"))
	require.NoError(t, err)
	steady := 10 // each is caught up with for a thousand ticks
	if span >= time.Minute {
		steady = 50
	}
	const workers, hour = 5, time.Hour
	clock := startClocked(t, oracle.MaxInterruptions(programCrashes))
	s := newSite(t, clock.server)
	book := newLedger(t)
	program := buildWorker(t, "./testdata/periodicworker")
	version := 0
	start := func() *process {
		version++
		client := []string{"go-redis", "rueidis"}[rand.N(2)]
		return s.launch(program, "-redis", s.url, "-prefix", s.prefix, "-client", client, "-n", fmt.Sprint(steady), "-version", fmt.Sprint(version), book.path)
	}
	var fleet []*process
	for range workers {
		fleet = append(fleet, start())
	}
	eventually(t, "the jobs to be registered", func() bool { return s.do("ZCARD", s.keys.Periodic()) == int64(steady+1) })
	began, kills := time.Now(), 0
	strike := func() {
		for until := time.Now().Add(span / 3); time.Now().Before(until); {
			time.Sleep(time.Duration(200+rand.N(1200)) * time.Millisecond) // between two faults
			victim := rand.N(len(fleet))
			poller, _ := s.do("GET", s.keys.Poller()).(string)
			for i, p := range fleet {
				if rand.N(2) == 0 && slices.Contains(p.identities(), poller) {
					victim = i
				}
			}
			fleet[victim].kill()
			kills++
			fleet[victim] = start()
		}
	}
	awaitTicks := func() {
		eventually(t, "the ticks to be those of Redis' time", func() bool {
			for _, last := range texts(s.do("HVALS", s.keys.PeriodicLast())) {
				at, err := time.Parse(time.RFC3339, last)
				if err != nil || clock.now().Sub(at).Abs() > 3*time.Second {
					return false
				}
			}
			return true
		})
	}
	strike()
	awaitTicks()
	ahead := clock.set(hour)
	strike()
	awaitTicks()
	back := clock.set(-hour)
	strike()
	ended := time.Now()
	awaitTicks()
	eventually(t, "the last ticks to run", func() bool { return s.waiting() == 0 })

	ticks := ticksOf(t, book)
	total := 0
	// between returns the ticks of a job in a span, which have no gap.
	between := func(name string, from, to time.Time) []time.Time {
		found := slices.DeleteFunc(slices.Clone(ticks[name]), func(at time.Time) bool { return at.Before(from) || !at.Before(to) })
		require.NotEmpty(t, found, "%s from %v to %v", name, from, to)
		require.Len(t, found, int(found[len(found)-1].Sub(found[0])/time.Second)+1, "%s from %v to %v has a gap: %v", name, from, to, found)
		return found
	}
	for i := range steady {
		name := fmt.Sprint("steady", i)
		total += len(ticks[name])
		first := between(name, began, ahead)
		require.Less(t, first[0].Sub(began), 20*time.Second)
		require.Less(t, ahead.Sub(first[len(first)-1]), 20*time.Second)
		// A thousand ticks are caught up with, fewer if no process polled meanwhile.
		passed := between(name, ahead.Add(hour-900*time.Second), back.Add(hour+time.Minute))
		require.Less(t, passed[0].Sub(ahead.Add(hour-900*time.Second)), 20*time.Second)
		require.Less(t, back.Add(hour).Sub(passed[len(passed)-1]), 20*time.Second)
		last := between(name, back, back.Add(hour/4))
		require.Less(t, last[0].Sub(back), 30*time.Second)
		require.Less(t, ended.Sub(last[len(last)-1]), 20*time.Second)
	}
	require.NotEmpty(t, ticks["changing"])
	versions := make(map[int]bool)
	for _, m := range book.marks() {
		versions[m.Worker] = true
		at, err := time.Parse(time.RFC3339, m.Class)
		require.NoError(t, err)
		if at.Before(back.Add(hour / 4)) { // others are of the hour ahead
			require.False(t, m.At.Before(at), "%s ran at %v, before its tick %v", m.What, m.At, at)
		}
	}
	t.Logf("%d kills in %v, %d ticks of steady jobs, definitions of %d versions were in force", kills, time.Since(began), total, len(versions))
	require.Greater(t, len(versions), 2, "the definition of the newest process is in force")
}

// Redis' clock is set an hour ahead, and back: the ticks go on after a moment in either case.
func TestPeriodicTicksWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	clock := startClocked(t, oracle.MaxInterruptions(programCrashes))
	s := newSite(t, clock.server)
	book := newLedger(t)
	worker := s.launch(buildWorker(t, "./testdata/periodicworker"), "-redis", s.url, "-prefix", s.prefix, "-n", "2", "-catch-up", "once", book.path)
	last := func() time.Time {
		all := ticksOf(t, book)["steady0"]
		if len(all) == 0 {
			return time.Time{}
		}
		return all[len(all)-1]
	}
	eventually(t, "the first ticks", func() bool { return len(ticksOf(t, book)["steady0"]) > 1 })
	before := last()
	clock.set(time.Hour)
	eventually(t, "ticks of the new time", func() bool { return last().Sub(before) > time.Hour-time.Second })
	require.Less(t, len(ticksOf(t, book)["steady0"]), 60, "the hour is not made up")
	eventually(t, "more of them", func() bool { return last().Sub(before) > time.Hour+3*time.Second })
	clock.set(-time.Hour)
	worker.awaitLog("last tick lies in the future")
	runs := func() int { return len(book.marks()) }
	was := runs()
	eventually(t, "ticks after the reset", func() bool { return runs() > was+4 })
	require.Zero(t, strings.Count(worker.log(), "panic"))
}
