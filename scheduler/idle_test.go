package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/belaytest"
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
	synctest.Test(t, func(t *testing.T) { // by the clock of a bubble, so that a busy machine delays no look
		keys, redis := lua.NewKeys("p"), belaytest.New(t).Client().Driver()
		c := &counted{Client: redis, scripts: make(map[string]int)}
		poller := scheduler.New(scheduler.Config{Client: c, Keys: keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
		_, err := poller.Pass(t.Context(), "me") // which asks to be the poller first
		require.NoError(t, err)
		*c = counted{Client: redis, scripts: make(map[string]int)}
		const span = 10 * time.Second // longer than a lease
		begin, looks := time.Now(), 0
		for ; time.Since(begin) < span; looks++ {
			next, err := poller.Pass(t.Context(), "me")
			require.NoError(t, err)
			require.LessOrEqual(t, next, 100*time.Millisecond, "still the poller")
			time.Sleep(next) // as the launcher does
		}
		require.InDelta(t, 100, looks, 1, "ten a second")
		require.Equal(t, looks, c.trips)
		require.InDelta(t, 10, c.scripts["lease"], 1, "about one a second")
		const full = 1 // of the renewals, to find out that there is nothing to read
		require.Equal(t, 2*looks+full, c.scripts["due"], "one look at each set")
		require.Equal(t, 2*looks+2*c.scripts["lease"]+2*full, c.calls, "and with each lease, whether there is anything else")
		ttl, _ := redis.Do(t.Context(), driver.Command("PTTL", keys.Poller()))[0].Value.(int64)
		require.Positive(t, ttl, "the lease was never let go")

		// What appears now is found with the next renewal of the lease.
		r := &rig{t: t, client: redis, keys: keys, poller: poller}
		r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "@every 1s"})
		gate := lua.Gate{Name: "one:", Size: lua.Size{Concurrency: 1}}
		r.wait(gate, "gated")
		for renewals := c.scripts["lease"]; c.scripts["lease"] == renewals; {
			time.Sleep(r.pass())
		}
		require.Len(t, r.waiting("gated"), 1)
		time.Sleep(time.Second)
		r.pass()
		require.NotEmpty(t, r.ticks())
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
		takeLease() // again, because a busy machine may have been at this for as long as a lease lasts
		require.Greater(r.t, r.pass(), time.Second)
		require.Empty(r.t, r.waiting("q"), "it promotes nothing any more")
		r.do("DEL", r.keys.Poller())
		r.pass()
		require.Len(r.t, r.waiting("q"), 1, "and takes over in its turn")
	})
}
