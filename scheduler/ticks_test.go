package scheduler_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// define stores a periodic job of class C in queue q.
func (r *rig) define(by lua.Registrar, p scheduler.Periodic, extra ...job.Edit) {
	r.t.Helper()
	p.Job = job.Draft{Class: "C", Queue: "q", Extra: extra}.Encode()
	require.NoError(r.t, p.Check())
	words, err := r.keys.Define(by, []lua.Definition{p.Definition()}).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
	require.Equal(r.t, []string{lua.DefineStored}, words)
}

// ticks are the nominal times of the ticks in queue q, in order.
func (r *rig) ticks() (ticks []time.Time) {
	r.t.Helper()
	for _, payload := range r.waiting("q") {
		parsed, err := job.Parse(payload)
		require.NoError(r.t, err)
		tick, ok := parsed.Tick()
		require.True(r.t, ok)
		ticks = append(ticks, tick.At)
	}
	return ticks
}

// simulated is a rig on the fake server, whose clock the test sets. A pass looks as if the poller had just
// begun, so that it does not wait by its own clock.
func simulated(t *testing.T, now time.Time) (r *rig, set func(now time.Time)) {
	t.Helper()
	fake := drivertest.Miniredis(t)
	client, err := goredisdriver.Open("redis://" + fake.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	r = &rig{t: t, client: client, keys: lua.NewKeys("")}
	set = func(now time.Time) {
		fake.SetTime(now)
		r.poller = scheduler.New(scheduler.Config{
			Client: client, Keys: r.keys, Clock: &lua.Clock{}, Log: zerolog.New(&r.log), Largest: job.DefaultPayloadLimit,
		})
		r.do("DEL", r.keys.Poller())
	}
	set(now)
	return r, set
}

func TestAPeriodicJobFires(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		begun := time.Now()
		r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "@every 1s"}, job.SetString("tenant", "acme"))
		for deadline := time.Now().Add(20 * time.Second); len(r.waiting("q")) < 3; {
			require.True(r.t, time.Now().Before(deadline))
			time.Sleep(r.pass()) // as the launcher does
		}
		ticks := r.ticks()
		for i, tick := range ticks {
			require.Zero(r.t, tick.Nanosecond())
			require.True(r.t, tick.After(begun.Add(-time.Millisecond)) || i > 0, "none from before the definition")
			require.False(r.t, tick.After(time.Now()), "none is early")
			if i > 0 {
				require.True(r.t, tick.After(ticks[i-1]))
			}
		}
		parsed, err := job.Parse(r.waiting("q")[0])
		require.NoError(r.t, err)
		enqueued, _ := parsed.EnqueuedAt()
		require.Less(r.t, enqueued.Sub(ticks[0]), 2*time.Second)
		tenant, _ := parsed.Field("tenant")
		require.Equal(r.t, `"acme"`, tenant)
		require.Len(r.t, parsed.JID(), 24)
	})
}

func TestPollersThatFireTogetherFireEachTickOnce(t *testing.T) {
	t.Parallel()
	r, set := simulated(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i := range 20 {
		r.define(lua.Registrar{}, scheduler.Periodic{Name: "n" + strconv.Itoa(i), Cron: "* * * * *", CatchUp: scheduler.CatchUpAll})
	}
	r.pass()
	set(time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC))
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			// Each on its own keyspace's lease would be the poller; here all are, one after the other, at
			// once.
			poller := scheduler.New(scheduler.Config{Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Log: zerolog.Nop(), Largest: job.DefaultPayloadLimit})
			for range 50 {
				_ = r.client.Do(t.Context(), lua.Lease(r.keys.Poller(), "p"+strconv.Itoa(i), time.Millisecond).Call)
				_, _ = poller.Pass(t.Context(), "p"+strconv.Itoa(i))
			}
		})
	}
	running.Wait()
	for range 50 {
		r.pass()
	}
	require.Len(t, r.ticks(), 20*30)
	count := make(map[string]int)
	for _, payload := range r.waiting("q") {
		parsed, err := job.Parse(payload)
		require.NoError(t, err)
		tick, _ := parsed.Tick()
		count[tick.Name+tick.At.String()]++
	}
	require.Len(t, count, 20*30, "each once")
}

// A clock that is set forward passes over ticks or makes them up, as the definition says; one that is set
// back fires none that has been, unless the last one lies beyond the next.
func TestAClockThatIsSet(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r, set := simulated(t, noon.Add(-30*time.Minute))
	r.define(lua.Registrar{}, scheduler.Periodic{Name: "hourly", Cron: "0 * * * *"})
	r.pass()
	set(noon.Add(10 * time.Minute)) // an hour ahead
	r.pass()
	require.Equal(t, []time.Time{noon}, utc(r.ticks()))
	set(noon.Add(-20 * time.Minute)) // and back
	r.pass()
	set(noon.Add(time.Second))
	r.pass()
	require.Len(t, r.ticks(), 1, "noon has been")
	set(noon.Add(time.Hour))
	r.pass()
	require.Equal(t, []time.Time{noon, noon.Add(time.Hour)}, utc(r.ticks()))

	set(noon.Add(365 * 24 * time.Hour)) // a year ahead
	r.pass()
	require.Len(t, r.ticks(), 3, "one for all that passed")
	set(noon.Add(2 * time.Hour))
	r.pass()
	require.Contains(t, r.log.String(), "last tick lies in the future")
	set(noon.Add(3 * time.Hour))
	r.pass()
	require.Equal(t, noon.Add(3*time.Hour), utc(r.ticks())[3])
}

func utc(ticks []time.Time) []time.Time {
	for i := range ticks {
		ticks[i] = ticks[i].UTC()
	}
	return ticks
}

// A job that cannot be fired holds up no other, and is caught up with when it can.
func TestAPeriodicJobThatCannotBeFired(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r, set := simulated(t, now)
	_, err := r.keys.Define(lua.Registrar{}, []lua.Definition{{Name: "a", Digest: "d", Schedule: "s", Text: `{"cron":"@fortnightly"}`}}).Do(t.Context(), r.client)
	require.NoError(t, err)
	r.define(lua.Registrar{}, scheduler.Periodic{Name: "b", Cron: "* * * * *"})
	set(now.Add(time.Minute))
	next, err := r.poller.Pass(t.Context(), "me")
	require.ErrorContains(t, err, `"a" cannot be used here`)
	require.Positive(t, next)
	require.Len(t, r.ticks(), 1)
	_, err = r.poller.Pass(t.Context(), "me")
	require.NoError(t, err, "not each time")
}

// What a job of an earlier tick holds up is noted, and not made up later.
func TestATickWhoseJobIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r, set := simulated(t, now)
	rule := dedup.Rule{Until: dedup.UntilExecuted}
	lock, err := rule.Lock(job.Draft{Class: "C", JID: "x"})
	require.NoError(t, err)
	r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "* * * * *", CatchUp: scheduler.CatchUpAll}, lock.Edit())
	for i := range 5 {
		set(now.Add(time.Duration(i) * time.Minute))
		r.pass()
	}
	require.Len(t, r.ticks(), 1)
	history, ok := r.do("LRANGE", r.keys.PeriodicRuns("n"), "0", "-1").([]any)
	require.True(t, ok)
	require.Len(t, history, 4)
	for _, entry := range history[:3] {
		require.Contains(t, entry, " refused ")
	}
}

// A day of uptime without a registration removes what code defined, and nothing that an operator did.
func TestOrphansAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r, set := simulated(t, now)
	r.define(lua.Registrar{Identity: "gone:1:abc", StartedAt: now}, scheduler.Periodic{Name: "code", Cron: "* * * * *"})
	r.define(lua.Registrar{}, scheduler.Periodic{Name: "hand", Cron: "* * * * *"})
	set(now.Add(48 * time.Hour)) // in which no process was alive
	r.pass()
	require.Equal(t, int64(2), r.do("HLEN", r.keys.PeriodicDefinitions()))
	r.do("SET", r.keys.PeriodicUptime(), "86395")
	set(now.Add(49 * time.Hour))
	r.pass()
	require.Equal(t, int64(0), r.do("HEXISTS", r.keys.PeriodicDefinitions(), "code"))
	require.Equal(t, int64(1), r.do("HEXISTS", r.keys.PeriodicDefinitions(), "hand"))
	require.Equal(t, 1, strings.Count(r.log.String(), "removed"))
}
