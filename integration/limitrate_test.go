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

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/integration/oracle"
)

// Two workers start 100 jobs in each 600 ms, while one of them, both, and Redis stand still. By the times that
// Redis wrote down no window has more starts, and each job waits once at most.
//
// BELAY_RATES is how many jobs there are. From 10,000 on the windows are of six seconds, so that the test takes ten
// minutes, each stall takes ten seconds, and besides them the rate must be used. BELAY_RATES_PER=1m makes the
// windows of such a run a minute long, and the test takes a hundred minutes: go test needs -timeout 3h.
func TestARateHoldsThroughStalls(t *testing.T) {
	const most = 100
	jobs, err := strconv.Atoi(cmp.Or(os.Getenv("BELAY_RATES"), "800"))
	require.NoError(t, err, "BELAY_RATES")
	whole, per, stall := jobs >= 10_000, 600*time.Millisecond, time.Second
	if whole {
		stall = 10 * time.Second
		per, err = time.ParseDuration(cmp.Or(os.Getenv("BELAY_RATES_PER"), "6s"))
		require.NoError(t, err, "BELAY_RATES_PER")
	}
	settings := fastStorm(25)
	settings.Beat, settings.TTL = time.Second, time.Minute // a stall is no death
	s := newStorm(t, 0, "rates", settings)
	for n := range 2 {
		s.start(check.RoleWorker, fmt.Sprintf("w%d", n), chaosClients[n], "--rate", fmt.Sprintf("%d/%v", most, per))
	}
	load := limitedLoad{keys: 1, jobs: jobs, bursts: 1}
	require.NoError(t, load.push(t.Context(), s.site.clientOf(check.RoleProducer), 0))
	processed := func() int { return number(s.site.text(s.site.keys.Processed())) }
	// await waits until so many jobs have ended. The next one may have to wait for a whole window.
	await := func(end int) {
		last, lastAt := -1, time.Now()
		for n := processed(); n < end; n = processed() {
			if n != last {
				last, lastAt = n, time.Now()
			}
			require.Less(t, time.Since(lastAt), per+patience, "%d of %d jobs have ended, and no more end", n, end)
			time.Sleep(20 * time.Millisecond)
		}
	}
	var stalls []time.Duration // when they began
	standStill := func(stop, proceed func()) {
		await(min(processed()+most, jobs))
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
	standStill(signal(syscall.SIGSTOP, s.slots[0]), signal(syscall.SIGCONT, s.slots[0]))
	standStill(signal(syscall.SIGSTOP, s.slots[1]), signal(syscall.SIGCONT, s.slots[1]))
	standStill(signal(syscall.SIGSTOP, s.slots...), signal(syscall.SIGCONT, s.slots...))
	standStill(s.server.Stop, s.server.Cont)
	await(jobs)
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
	// A machine so busy that the workers never start as many jobs in a window lets none wait.
	if fullest := fullestOf(at, per); fullest >= most {
		require.Positive(t, waited, "a window had %d starts", fullest)
	} else {
		t.Logf("rates: nothing had to wait: no window had more than %d starts", fullest)
	}
	unused := unusedOf(at, most, per, stalls, stall)
	t.Logf("rates: %d jobs in %v, %d of them waited; besides the stalls %.1f %% of the rate were not used", jobs, at[len(at)-1]-at[0], waited, 100*unused)
	if whole { // in a short run there is little besides the stalls, and a busy machine makes windows late
		require.LessOrEqual(t, unused, 0.02, "the rate was not used")
	}
}

// fullestOf is how many starts the window with the most of them has.
func fullestOf(at []time.Duration, per time.Duration) (fullest int) {
	first := 0
	for n, start := range at {
		for at[first] <= start-per {
			first++
		}
		fullest = max(fullest, n-first+1)
	}
	return fullest
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
