package belay_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// Two servers that schedule the same job run each tick once, with its time.
func TestPeriodicJobsRunOnceForAllServers(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	type args struct{ Tenant string }
	report := belay.Define[args]("Report", belay.Queue("reports"), belay.Meta("locale", "de"))
	var mu sync.Mutex
	var ticks []time.Time
	enough := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for range 2 {
		server := newServer(t, client, belay.ServerConfig{Queues: belay.Queues("reports"), Concurrency: 2})
		report.Handle(server, func(ctx context.Context, a args) error {
			info, _ := belay.Info(ctx)
			mu.Lock()
			defer mu.Unlock()
			if info.Periodic != "nightly" || a.Tenant != "acme" || info.Meta["locale"] != "de" || time.Now().Before(info.TickAt) {
				t.Errorf("an unexpected run: %+v %+v", info, a)
			}
			if ticks = append(ticks, info.TickAt); len(ticks) == 3 {
				close(enough)
			}
			return nil
		})
		require.NoError(t, server.Schedule(
			belay.Periodic{Name: "nightly", Cron: "@every 1s", Job: report.Job(args{"acme"}), Zone: "Europe/Berlin", CatchUp: belay.CatchUpAll}))
		running.Go(func() {
			if err := server.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(30 * time.Second):
		t.Error("no three ticks in 30 s")
	}
	stop()
	running.Wait()
	require.Equal(t, "Europe/Berlin", zoneOf(ticks[0]), ticks[0])
	slices.SortFunc(ticks, time.Time.Compare)
	for i := range ticks[1:] {
		require.Equal(t, time.Second, ticks[i+1].Sub(ticks[i]), "each tick once: %v", ticks)
	}
}

// What became of the job of each tick is in the history, and a line of the log says when the next one is.
func TestTheHistoryOfAPeriodicJobHasOutcomes(t *testing.T) {
	t.Parallel()
	client, log := openShared(t), &drivertest.Buffer{}
	server := newServer(t, client, belay.ServerConfig{Heartbeat: 200 * time.Millisecond, TTL: 2 * time.Second, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	report := belay.Define[string]("Report")
	asked := make(chan belay.RunInfo, 1)
	report.Handle(server, func(ctx context.Context, what string) error {
		if what == "done" {
			info, _ := belay.Info(ctx)
			asked <- info
		}
		switch what {
		case "cancelled":
			<-ctx.Done()
			return ctx.Err()
		case "done":
			return nil
		}
		return errors.New("boom")
	})
	for what, options := range map[string][]belay.JobOption{
		"done": nil, "retrying": {belay.Retries(5)}, "dead": {belay.Retries(0)}, "cancelled": {belay.Track(time.Second)},
	} {
		require.NoError(t, server.Schedule(belay.Periodic{Name: what, Cron: "0 3 1 1 *", Job: report.Job(what, options...), Zone: "Europe/Berlin"}))
	}
	running(t, server)
	inspector := inspect.New(client)
	for _, what := range []string{"done", "retrying", "dead", "cancelled"} {
		var run inspect.PeriodicRun
		drivertest.Eventually(t, func() bool {
			var err error
			run, err = inspector.RunPeriodic(t.Context(), what)
			return err == nil
		}, patience, tick, "registered")
		require.Equal(t, "enqueued", run.Outcome)
		last := func() inspect.PeriodicRun {
			_, runs, err := inspector.PeriodicHistory(t.Context(), what)
			require.NoError(t, err)
			return runs[len(runs)-1]
		}
		if what == "cancelled" {
			drivertest.Eventually(t, func() bool { return last().Outcome == "running" }, patience, tick)
			again, err := inspector.RunPeriodic(t.Context(), what)
			require.NoError(t, err)
			require.Equal(t, inspect.PeriodicRun{At: again.At, Outcome: "refused", JID: run.JID}, again)
			_, err = inspector.Cancel(t.Context(), run.JID)
			require.NoError(t, err)
		}
		drivertest.Eventually(t, func() bool { return last().Outcome == what }, patience, tick, what)
		require.Equal(t, run.JID, last().JID)
		require.Equal(t, what != "retrying", last().EndedAt != nil)
		if what == "done" || what == "dead" { // the others change, or were refused since
			periodic, runs, err := inspector.PeriodicHistory(t.Context(), what)
			require.NoError(t, err)
			require.Equal(t, &runs[0], periodic.LastRun)
			all, err := inspector.Periodic(t.Context())
			require.NoError(t, err)
			at := slices.IndexFunc(all, func(listed inspect.Periodic) bool { return listed.Name == what })
			require.Equal(t, periodic.LastRun, all[at].LastRun)
		}
		kept, ok := client.Driver().Do(t.Context(), driver.Command("TTL", lua.NewKeys(client.Config().Prefix).Iteration(run.JID)))[0].Value.(int64)
		require.True(t, ok)
		require.Greater(t, time.Duration(kept)*time.Second, 29*24*time.Hour, "as long as the next ticks take, though its class asks for a second")
	}
	info := awaitValue(t, "the run", asked)
	require.True(t, info.TickManual)
	require.WithinDuration(t, time.Now(), info.TickAt, time.Minute, "a handler that reports the day before needs a time")
	require.Zero(t, info.TickAt.Nanosecond(), "as ticks have")
	require.Equal(t, "Europe/Berlin", zoneOf(info.TickAt))
	require.Regexp(t, `"periodic":"done","schedule":"0 3 1 1 \*","zone":"Europe/Berlin","next":"\d+-01-01T03:00:00\+01:00"`, log.String())
	require.Equal(t, 4, strings.Count(log.String(), "periodic job registered"))
}

// A tick falls due while no process polls, and then a server or an operator registers another schedule: the tick
// is enqueued with the args that it had, before ticks count from the change.
func TestATickThatIsDueBeforeItsScheduleChangesIsFired(t *testing.T) {
	t.Parallel()
	report := belay.Define[string]("Report")
	for by, change := range map[string]func(t *testing.T, client *belay.Client, server *belay.Server){
		"a server": func(t *testing.T, _ *belay.Client, server *belay.Server) {
			require.NoError(t, server.Schedule(belay.Periodic{Name: "yearly", Cron: "0 3 1 1 *", Job: report.Job("new")}))
		},
		"an operator": func(t *testing.T, client *belay.Client, _ *belay.Server) {
			changed := &scheduler.Periodic{Name: "yearly", Cron: "0 3 1 1 *", Job: job.Draft{Class: "Report"}.Encode()}
			require.NoError(t, changed.Check())
			stored, err := inspect.New(client).AddPeriodic(t.Context(), changed)
			require.NoError(t, err)
			require.True(t, stored)
		},
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			client := openShared(t)
			keys := lua.NewKeys(client.Config().Prefix)
			old := scheduler.Periodic{Name: "yearly", Cron: "0 2 1 1 *", Job: job.Draft{Class: "Report", ArgsJSON: `["old"]`}.Encode()}
			require.NoError(t, old.Check())
			dead := lua.Registrar{Identity: "gone:1:abc", StartedAt: time.UnixMilli(1)}
			_, err := keys.Define(dead, []lua.Definition{old.Definition()}).Do(t.Context(), client.Driver())
			require.NoError(t, err)
			first := time.Date(time.Now().Year()-2, 1, 1, 2, 0, 0, 0, time.UTC)
			set := client.Driver().Do(t.Context(), driver.Command("HSET", keys.PeriodicLast(), "yearly", first.Format(time.RFC3339)))
			require.NoError(t, set[0].Err)
			ran := make(chan time.Time, 10)
			server := newServer(t, client, belay.ServerConfig{})
			report.Handle(server, func(ctx context.Context, args string) error {
				info, _ := belay.Info(ctx)
				if args != "old" {
					return errors.New("of the new schedule")
				}
				ran <- info.TickAt
				return nil
			})
			change(t, client, server)
			running(t, server)
			require.Equal(t, 2, awaitValue(t, "the run", ran).UTC().Hour(), "a tick of the old schedule")
		})
	}
}

// A program stores, changes and removes schedules while workers run, which have none of them in their code.
func TestPeriodicJobsChangeAtRunTime(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	report := belay.Define[string]("Report")
	server := newServer(t, client, belay.ServerConfig{})
	ran := make(chan string, 100)
	report.Handle(server, func(_ context.Context, what string) error { ran <- what; return nil })
	require.NoError(t, server.Schedule(belay.Periodic{Name: "code", Cron: "@yearly", Job: report.Job("code")}))
	running(t, server)
	sync := func(what string) belay.Periodic {
		return belay.Periodic{Name: "sync", Cron: "@every 1s", Job: report.Job(what)}
	}
	set := func(p belay.Periodic) (changed bool) {
		changed, err := client.SetPeriodic(t.Context(), p)
		require.NoError(t, err)
		return changed
	}
	require.True(t, set(sync("old")))
	require.False(t, set(sync("old")), "it is so already")
	require.Equal(t, "old", awaitValue(t, "a tick", ran))
	require.True(t, set(sync("new")))
	drivertest.Eventually(t, func() bool { return awaitValue(t, "a tick", ran) == "new" }, patience, tick)

	inspector := inspect.New(client)
	drivertest.Eventually(t, func() bool {
		_, _, err := inspector.PeriodicHistory(t.Context(), "code")
		return err == nil
	}, patience, tick, "registered")
	_, err := client.RemovePeriodic(t.Context(), "code")
	require.ErrorContains(t, err, "in its code")
	require.True(t, set(belay.Periodic{Name: "code", Cron: "@monthly", Job: report.Job("set")}), "it prevails")
	for _, want := range []bool{true, false} {
		removed, err := client.RemovePeriodic(t.Context(), "sync")
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
	all, err := inspector.Periodic(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []string{"code", "@monthly", ""}, []string{all[0].Name, all[0].Cron, all[0].Process})

	_, err = client.SetPeriodic(t.Context(), belay.Periodic{Name: "odd", Cron: "0 3 * *", Zone: "Nowhere", Job: report.Job("x", belay.In(time.Hour))})
	for _, says := range []string{`belay: periodic job "odd": `, "Nowhere", "In and At"} {
		require.ErrorContains(t, err, says)
	}
}

// zoneOf is Berlin for one of its offsets.
func zoneOf(at time.Time) string {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	_, want := at.In(berlin).Zone()
	if _, has := at.Zone(); has != want {
		return "another"
	}
	return "Europe/Berlin"
}

func TestScheduleNamesEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	server := newServer(t, openShared(t), belay.ServerConfig{})
	plain := belay.Define[struct{}]("Plain")
	plain.Handle(server, func(context.Context, struct{}) error { return nil })
	unique := belay.Define[struct{}]("Once", belay.Unique(belay.UntilExecuting))
	err := server.Schedule(
		belay.Periodic{Name: "fine", Cron: "@daily", Job: plain.Job(struct{}{})},
		belay.Periodic{Name: "fine", Cron: "@daily", Job: plain.Job(struct{}{})},
		belay.Periodic{Cron: "0 3 * *", Job: plain.Job(struct{}{}, belay.In(time.Hour)), Zone: "Nowhere", CatchUp: "some", Overlap: "none", Jitter: -1},
		belay.Periodic{Name: "jid", Cron: "@daily", Job: plain.Job(struct{}{}, belay.JID("x"), belay.PushOnce(), belay.Replicated(1, time.Second))},
		belay.Periodic{Name: "both", Cron: "@daily", Job: unique.Job(struct{}{}), Overlap: belay.OverlapAllow},
		belay.Periodic{Name: "nil", Cron: "@daily", Job: plain.Job(struct{}{}, nil)},
		belay.Periodic{Name: "no job", Cron: "@daily"},
		belay.Periodic{Name: "no cron", Job: plain.Job(struct{}{})},
	)
	for _, says := range []string{
		`"fine": there is one of this name already`, "the name \"\"", "Nowhere", `catch-up "some"`, `overlap "none"`, "jitter -1ns", "In and At",
		`"jid": JID`, "PushOnce", "Replicas: workers enqueue its ticks", "both Unique and an Overlap", "an option is nil", `"no job": the name of the class is empty`, `"no cron": `,
	} {
		require.ErrorContains(t, err, says)
	}
	require.ErrorContains(t, server.Run(t.Context()), "Schedule", "a server does not run without what it was told to schedule")
}
