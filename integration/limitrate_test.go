package integration

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
)

// Two workers start 100 jobs in each 600 ms, while one of them, both, and Redis stand still. By the times that
// Redis wrote down no window has more starts, and each job waits once at most.
//
// BELAY_RATES is how many jobs there are; from 10,000 on the windows are of six seconds, so that the test takes ten
// minutes, each stall takes ten seconds, and besides them the rate must be used.
func TestARateHoldsThroughStalls(t *testing.T) {
	const most = 100
	jobs, err := strconv.Atoi(cmp.Or(os.Getenv("BELAY_RATES"), "800"))
	require.NoError(t, err, "BELAY_RATES")
	whole, per, stall := jobs >= 10_000, 600*time.Millisecond, time.Second
	if whole {
		per, stall = 6*time.Second, 10*time.Second
	}
	settings := fastStorm(25)
	settings.Beat, settings.TTL = time.Second, time.Minute // a stall is no death
	s := newStorm(t, 0, "rates", settings)
	for n := range 2 {
		s.start(fmt.Sprintf("w%d", n), chaosClients[n], "--rate", fmt.Sprintf("%d/%v", most, per))
	}
	load := limitedLoad{keys: 1, jobs: jobs, bursts: 1}
	require.NoError(t, load.push(s.site, 0))
	processed := func() int { return number(s.site.text(s.site.keys.Processed())) }
	var stalls []time.Duration // when they began
	standStill := func(what string, stop, proceed func()) {
		before := processed()
		eventually(t, "jobs to start before "+what, func() bool { return processed() >= min(before+most, jobs) })
		stalls = append(stalls, history.Now())
		stop()
		time.Sleep(stall)
		proceed()
	}
	signal := func(sig syscall.Signal, slots ...*stormSlot) func() {
		return func() {
			for _, slot := range slots {
				slot.signal(sig, sig.String())
			}
		}
	}
	standStill("a worker", signal(syscall.SIGSTOP, s.slots[0]), signal(syscall.SIGCONT, s.slots[0]))
	standStill("the other worker", signal(syscall.SIGSTOP, s.slots[1]), signal(syscall.SIGCONT, s.slots[1]))
	standStill("both workers", signal(syscall.SIGSTOP, s.slots...), signal(syscall.SIGCONT, s.slots...))
	standStill("Redis", s.server.Stop, s.server.Cont)
	last, lastAt := 0, time.Now()
	for n := processed(); n < jobs; n = processed() {
		if n != last {
			last, lastAt = n, time.Now()
		}
		require.Less(t, time.Since(lastAt), patience, "%d of %d jobs have ended, and no more end", n, jobs)
		time.Sleep(20 * time.Millisecond)
	}
	for _, slot := range s.slots {
		slot.end(syscall.SIGTERM)
	}
	events, err := history.ReadOf(s.dir, "w*")
	require.NoError(t, err)
	var at []time.Duration
	for _, e := range events {
		if e.Kind == history.Start {
			at = append(at, e.At)
		}
	}
	require.Len(t, at, jobs, "each job runs once")
	report := judge(t, s.server, s.redis)
	for jid, times := range report.Taken {
		require.LessOrEqual(t, times, 2, "%s was taken more than once before and once after its wait", jid)
	}
	waited := 0
	for edge, count := range report.Edges {
		if edge.Move == oracle.Waits {
			waited += count
		}
	}
	require.Positive(t, waited)
	unused := unusedOf(at, most, per, stalls, stall)
	t.Logf("rates: %d jobs in %v, %d of them waited; besides the stalls %.1f %% of the rate were not used", jobs, at[len(at)-1]-at[0], waited, 100*unused)
	if whole { // in a short run there is little besides the stalls, and a busy machine makes windows late
		require.LessOrEqual(t, unused, 0.02, "the rate was not used")
	}
}

// unusedOf is which share of the rate was not used, where no stall and none of the five seconds after it, in
// which another process becomes the poller, lies between a start and the one that it made room for.
func unusedOf(at []time.Duration, most int, per time.Duration, stalls []time.Duration, stall time.Duration) float64 {
	var late time.Duration
	count := 0
	for n, start := range at[most:] {
		stalled := slices.ContainsFunc(stalls, func(begin time.Duration) bool { return at[n] < begin+stall+5*time.Second && begin < start })
		if !stalled {
			late, count = late+start-at[n]-per, count+1
		}
	}
	return float64(late) / float64(max(count, 1)) / float64(per)
}
