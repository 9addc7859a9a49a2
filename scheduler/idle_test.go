package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// counted is a client that counts what is asked of it.
type counted struct {
	driver.Client
	trips, calls int
	scripts      map[string]int
}

func (c *counted) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	c.trips++
	c.calls += len(calls)
	for _, call := range calls {
		if call.Script != nil {
			c.scripts[call.Script.Name()]++
		}
	}
	return c.Client.Do(ctx, calls...)
}

// The fleet has one poller, which looks ten times a second for ever: what a look costs is what Belay costs
// when idle.
func TestAnIdlePollerCostsOneRoundTripALook(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		c := &counted{Client: r.client, scripts: make(map[string]int)}
		poller := scheduler.New(scheduler.Config{Client: c, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
		_, err := poller.Pass(r.t.Context(), "me") // which asks to be the poller first
		require.NoError(r.t, err)
		*c = counted{Client: r.client, scripts: make(map[string]int)}
		const span = 2500 * time.Millisecond // longer than a lease
		begin, looks := time.Now(), 0
		for ; time.Since(begin) < span; looks++ {
			next, err := poller.Pass(r.t.Context(), "me")
			require.NoError(r.t, err)
			require.LessOrEqual(r.t, next, 100*time.Millisecond, "still the poller")
			time.Sleep(next) // as the launcher does
		}
		perSecond := func(n int) float64 { return float64(n) / time.Since(begin).Seconds() }
		r.t.Logf("idle: %.1f looks, %.1f round trips, %.1f commands a second: %v", perSecond(looks), perSecond(c.trips), perSecond(c.calls), c.scripts)
		require.Equal(r.t, looks, c.trips)
		require.InDelta(r.t, 2*looks+c.scripts["lease"], c.scripts["due"], 0, "one look at each set, and one at the periodic jobs with each lease")
		require.InDelta(r.t, 2, c.scripts["lease"], 1, "about one a second")
		require.Equal(r.t, c.calls, c.scripts["due"]+c.scripts["lease"])
		ttl, _ := r.do("PTTL", r.keys.Poller()).(int64)
		require.Positive(r.t, ttl, "the lease was never let go")
	})
}

// A poller that has been away for too long finds that it has been replaced, and stands by.
func TestAPollerThatWasReplacedStandsBy(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		r.pass()
		takeLease := func() { r.do("SET", r.keys.Poller(), "another", "PX", "2000") }
		takeLease()
		for deadline := time.Now().Add(10 * time.Second); r.pass() < time.Second; takeLease() {
			require.True(r.t, time.Now().Before(deadline), "it never asks again")
			time.Sleep(10 * time.Millisecond)
		}
		r.due(r.keys.Schedule(), job.Draft{Class: "A", Queue: "q"}.Encode())
		require.Greater(r.t, r.pass(), time.Second)
		require.Empty(r.t, r.waiting("q"), "it promotes nothing any more")
		r.do("DEL", r.keys.Poller())
		r.pass()
		require.Len(r.t, r.waiting("q"), 1, "and takes over in its turn")
	})
}
