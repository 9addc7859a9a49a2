package scheduler_test

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/logbook"
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
			Round: patience, Client: client, Keys: r.keys, Clock: &lua.Clock{}, Log: slog.New(logbook.JSON(&r.log, slog.LevelDebug)), Largest: job.DefaultPayloadLimit,
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
		require.WithinRange(r.t, enqueued, ticks[0], time.Now())
		tenant, _ := parsed.Field("tenant")
		require.Equal(r.t, `"acme"`, tenant)
		require.Len(r.t, parsed.JID(), 24)
	})
}

// The poller dies, and another process replaces it after four seconds; then no process is alive for half a
// minute. Each tick of the former time is enqueued, and of the latter time what the definition says.
func TestAChangeOfThePollerIsNoDowntime(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		catchUp    scheduler.CatchUp
		afterwards int // ticks in 30 s without a process
	}{{scheduler.CatchUpOnce, 1}, {scheduler.CatchUpSkip, 30}, {scheduler.CatchUpAll, 30}} {
		t.Run(string(c.catchUp), func(t *testing.T) {
			t.Parallel()
			r, set := simulated(t, begun)
			register := func() {
				registered, err := r.keys.Register(strconv.Itoa(len(r.ticks())), lua.Record{TTL: 6 * time.Second}).Do(t.Context(), r.client)
				require.NoError(t, err)
				require.True(t, registered.OK)
			}
			register()
			r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "@every 1s", CatchUp: c.catchUp})
			r.pass()
			set(begun.Add(4 * time.Second))
			r.pass()
			require.Len(t, r.ticks(), 4)
			set(begun.Add(34 * time.Second))
			register()
			r.pass()
			ticks := utc(r.ticks())
			require.Len(t, ticks, 4+c.afterwards)
			require.Equal(t, begun.Add(34*time.Second), ticks[len(ticks)-1])
			for i := range 4 {
				require.Equal(t, begun.Add(time.Duration(i+1)*time.Second), ticks[i])
			}
		})
	}
}

// What fell due while no process polled is enqueued also where the job of one tick must end before that of the
// next begins: each tick waits for the one before it, which was late too. Overlap that was there at the time
// of a tick counts as ever.
func TestLateTicksWaitForEachOther(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, overlap := range []scheduler.Overlap{scheduler.OverlapSkip, scheduler.OverlapQueue} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			r, set := simulated(t, begun)
			_, err := r.keys.Register("p", lua.Record{TTL: time.Hour}).Do(t.Context(), r.client)
			require.NoError(t, err)
			lock, err := scheduler.OverlapRule("n").Lock(job.Draft{Class: "C", JID: "x"})
			require.NoError(t, err)
			r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "@every 1s", Overlap: overlap}, lock.Edit())
			end := func() { r.do("DEL", r.keys.Lock(lock.Digest)) }
			r.pass()
			again := func(after time.Duration) {
				r.do("ZADD", r.keys.Periodic(), "XX", "LT", "1", "n") // the pause of a tick that waits is over
				set(begun.Add(after))
				r.pass()
			}
			for n := range 4 {
				again(4 * time.Second)
				require.Len(t, r.ticks(), n+1, "one at a time")
				end()
			}
			again(4 * time.Second)
			require.Len(t, r.ticks(), 4)

			// The job of the fifth tick runs until the poller has changed, and a second longer.
			again(5 * time.Second)
			require.Len(t, r.ticks(), 5)
			again(9 * time.Second)
			require.Len(t, r.ticks(), 5)
			end()
			again(9 * time.Second)
			if overlap == scheduler.OverlapQueue {
				require.Equal(t, begun.Add(6*time.Second), utc(r.ticks())[5], "it has waited")
			} else {
				require.Len(t, r.ticks(), 5, "they were skipped")
			}
		})
	}
}

// A last tick that was deleted or overwritten is replaced: ticks count from then on, and the log says so.
func TestALostLastTickHeals(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, spoil := range map[string]func(r *rig){
		"deleted":     func(r *rig) { r.do("HDEL", r.keys.PeriodicLast(), "n") },
		"overwritten": func(r *rig) { r.do("HSET", r.keys.PeriodicLast(), "n", "yesterday") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, set := simulated(t, now)
			r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "* * * * *"})
			r.pass()
			spoil(r)
			set(now.Add(time.Minute))
			r.pass()
			require.Contains(t, r.log.String(), "last tick is missing or unreadable")
			set(now.Add(2 * time.Minute))
			r.pass()
			require.Equal(t, []time.Time{now.Add(2 * time.Minute)}, utc(r.ticks()))
		})
	}
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
			poller := scheduler.New(scheduler.Config{Round: patience, Client: r.client, Keys: r.keys, Clock: &lua.Clock{}, Largest: job.DefaultPayloadLimit})
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

// A schedule changes while no process polls. What is due by the old one is fired first, as its definition says
// and with its args; then ticks count from the change.
func TestAChangedScheduleFiresWhatIsDueBefore(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	now := noon.Add(3*time.Minute + time.Second) // two minutes after the only process
	for _, c := range []struct {
		catchUp scheduler.CatchUp
		ticks   []time.Time
		log     string
	}{
		{scheduler.CatchUpOnce, []time.Time{noon.Add(3 * time.Minute)}, "ticks that passed are left out"},
		{scheduler.CatchUpSkip, []time.Time{noon.Add(3 * time.Minute)}, "ticks that passed are left out"},
		{scheduler.CatchUpAll, []time.Time{noon.Add(time.Minute), noon.Add(2 * time.Minute), noon.Add(3 * time.Minute)}, `"message":"tick"`},
	} {
		t.Run(string(c.catchUp), func(t *testing.T) {
			t.Parallel()
			r, set := simulated(t, noon)
			r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "* * * * *", CatchUp: c.catchUp})
			r.pass()
			set(now)
			changed := scheduler.Periodic{Name: "n", Cron: "*/2 * * * *", CatchUp: c.catchUp}
			require.Equal(t, lua.DefineStored, r.register(&changed))
			require.Equal(t, c.ticks, utc(r.ticks()))
			require.Contains(t, r.log.String(), c.log)
			r.pass()
			require.Len(t, r.ticks(), len(c.ticks), "each once")
			set(noon.Add(4 * time.Minute))
			r.pass()
			require.Equal(t, append(c.ticks, noon.Add(4*time.Minute)), utc(r.ticks()))
		})
	}
}

// register stores a periodic job of class C in queue q as a process does that starts while no process polls.
func (r *rig) register(p *scheduler.Periodic, extra ...job.Edit) (word string) {
	r.t.Helper()
	p.Job = job.Draft{Class: "C", Queue: "q", Extra: extra}.Encode()
	require.NoError(r.t, p.Check())
	words, err := scheduler.Define(r.t.Context(), &link.Link{Client: r.client, Round: patience}, scheduler.Config{Keys: r.keys, Log: slog.New(logbook.JSON(&r.log, slog.LevelDebug))}, lua.Registrar{}, []lua.Definition{p.Definition()})
	require.NoError(r.t, err)
	require.Len(r.t, words, 1)
	return words[0]
}

// Several processes of a new version register at once, beside the poller: each due tick is fired once.
func TestProcessesThatChangeAScheduleTogetherFireEachTickOnce(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		old := scheduler.Periodic{Name: "n", Cron: "@every 1s", CatchUp: scheduler.CatchUpAll}
		r.define(lua.Registrar{}, old)
		begun := time.Now().Add(-5 * time.Minute).Truncate(time.Second)
		r.do("HSET", r.keys.PeriodicLast(), "n", begun.UTC().Format(time.RFC3339))
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() {
				changed := scheduler.Periodic{Name: "n", Cron: "0 0 1 1 *", Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
				if err := changed.Check(); err != nil {
					t.Error(err)
				}
				for word := lua.DefineDue; word == lua.DefineDue; {
					words, err := scheduler.Define(t.Context(), &link.Link{Client: r.client, Round: patience}, scheduler.Config{Keys: r.keys}, lua.Registrar{}, []lua.Definition{changed.Definition()})
					if err != nil {
						t.Error(err)
						return
					}
					word = words[0]
				}
			})
		}
		running.Wait()
		ticks := utc(r.ticks())
		require.GreaterOrEqual(t, len(ticks), 299)
		for i, tick := range ticks {
			require.Equal(t, begun.UTC().Add(time.Duration(i+1)*time.Second), tick)
		}
	})
}

// A tick waits for the job of an earlier one when the schedule changes: the change does not wait as well, and a
// log line says which tick is left out, whether the poller or a process that registers was the last to ask.
func TestATickThatWaitsWhenItsScheduleChangesIsLogged(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, polled := range []bool{true, false} {
		t.Run("polled "+strconv.FormatBool(polled), func(t *testing.T) {
			t.Parallel()
			r, set := simulated(t, begun)
			_, err := r.keys.Register("p", lua.Record{TTL: time.Hour}).Do(t.Context(), r.client)
			require.NoError(t, err)
			lock, err := scheduler.OverlapRule("n").Lock(job.Draft{Class: "C", JID: "x"})
			require.NoError(t, err)
			r.define(lua.Registrar{}, scheduler.Periodic{Name: "n", Cron: "@every 1s", Overlap: scheduler.OverlapQueue}, lock.Edit())
			r.pass()
			set(begun.Add(2 * time.Second))
			if polled {
				r.pass()
			}
			changed := scheduler.Periodic{Name: "n", Cron: "@every 2s", Overlap: scheduler.OverlapQueue}
			require.Equal(t, lua.DefineStored, r.register(&changed, lock.Edit()))
			left := func() int {
				return strings.Count(r.log.String(), "tick that waited is left out: the schedule has changed")
			}
			for deadline := time.Now().Add(20 * time.Second); left() == 0; {
				require.True(t, time.Now().Before(deadline))
				time.Sleep(r.pass()) // as the launcher does
			}
			require.Equal(t, []time.Time{begun.Add(time.Second)}, utc(r.ticks()))
			require.Equal(t, 1, left())
		})
	}
}

// A definition that cannot be fired does not prevent its replacement; the reason is returned.
func TestADefinitionThatCannotBeFiredIsReplaced(t *testing.T) {
	t.Parallel()
	eachClient(t, func(r *rig) {
		_, err := r.keys.Define(lua.Registrar{}, []lua.Definition{{Name: "a", Digest: "d", Schedule: "s", Text: `{"cron":"@fortnightly"}`}}).Do(t.Context(), r.client)
		require.NoError(t, err)
		changed := scheduler.Periodic{Name: "a", Cron: "* * * * *", Job: job.Draft{Class: "C", Queue: "q"}.Encode()}
		require.NoError(t, changed.Check())
		words, err := scheduler.Define(t.Context(), &link.Link{Client: r.client, Round: patience}, scheduler.Config{Keys: r.keys}, lua.Registrar{}, []lua.Definition{changed.Definition()})
		require.ErrorContains(t, err, `"a" cannot be used here`)
		require.Equal(t, []string{lua.DefineStored}, words)
	})
}
