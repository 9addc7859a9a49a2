package launcher_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// rule stores the rule of a class, and returns its gate.
func (r *rig) rule(rule lua.ClassRule) lua.Gate {
	r.t.Helper()
	_, err := r.keys.SetClassRule(rule).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
	return rule.Gate()
}

func (r *rig) noRule(class string) {
	r.t.Helper()
	_, err := r.keys.RemoveClassRule(class).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
}

func (r *rig) waiters(gate lua.Gate) int {
	r.t.Helper()
	return len(r.list(r.keys.WaitingList(gate.Name)))
}

// obeyed waits until a worker has read the rule of a class.
func (r *rig) obeyed(class, rule string) {
	r.t.Helper()
	r.eventually("the rule to be read", func() bool {
		return slices.ContainsFunc(strings.Split(r.log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, `"class":"`+class+`","rule":"`+rule+`"`)
		})
	})
}

// A paused class starts no job from a heartbeat on. Its runs go on, other classes run, and when it is resumed its
// jobs run in their order.
func TestAPausedClassWaitsUntilItIsResumed(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Concurrency, cfg.PollWait = 1, 1
		l := r.build(cfg)
		began, free := make(chan string, 100), make(chan struct{}, 100)
		l.Handle("Reports::Daily", func(_ context.Context, j *job.Job) error {
			began <- j.ArgsJSON()
			<-free
			return nil
		}, launcher.Class{})
		l.Handle("Other", func(context.Context, *job.Job) error { began <- "other"; return nil }, launcher.Class{})
		r.push("Reports::Daily", "[0]")
		r.start(l)
		require.Equal(t, "[0]", receive(t, "a run", began))
		gate := r.rule(lua.ClassRule{Class: "Reports::Daily"})
		r.obeyed("Reports::Daily", "pause")
		for _, args := range []string{"[1]", "[2]", "[3]"} {
			r.push("Reports::Daily", args)
		}
		r.push("Other", "[]")
		free <- struct{}{}
		require.Equal(t, "other", receive(t, "the run of another class", began))
		require.Equal(t, 3, r.waiters(gate))
		r.eventually("the run to end", func() bool { return r.counter(r.keys.Processed()) == "2" })
		require.Empty(t, began)

		r.noRule("Reports::Daily")
		for _, args := range []string{"[1]", "[2]", "[3]"} {
			require.Equal(t, args, receive(t, "a run", began))
			free <- struct{}{}
		}
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "5" })
		require.Equal(t, int64(0), r.do("EXISTS", r.keys.Gates(), r.keys.Admitted(), r.keys.Waiting(), r.keys.Limits()))
	})
}

// A process reads the rules before it registers, so that it takes no job of a paused class to run it: one with a
// handler, one of which it knows nothing, and one that Rails has wrapped.
func TestANewProcessObeysTheRulesFromItsFirstJobOn(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		ran := make(chan string, 100)
		run := func(_ context.Context, j *job.Job) error { ran <- j.DisplayClass(); return nil }
		odd := `odd: 100% "class" é`
		for _, class := range []string{"Known", "Sidekiq::ActiveJob::Wrapper", odd, "Free"} {
			l.Handle(class, run, launcher.Class{})
		}
		gates := []lua.Gate{
			r.rule(lua.ClassRule{Class: "Known"}), r.rule(lua.ClassRule{Class: "Ruby::Only"}), r.rule(lua.ClassRule{Class: "Reports::Daily"}), r.rule(lua.ClassRule{Class: odd}),
		}
		payloads := []string{
			r.push("Known", "[]"), r.push("Ruby::Only", `["ruby"]`, job.Edit{Name: "retry", JSON: "true"}),
			r.push("Sidekiq::ActiveJob::Wrapper", "[{}]", job.Edit{Name: "wrapped", JSON: `"Reports::Daily"`}), r.push(odd, "[]"),
		}
		r.push("Free", "[]")
		r.start(l)
		require.Equal(t, "Free", receive(t, "a run", ran))
		for n, gate := range gates {
			r.eventually("the job to wait", func() bool { return r.waiters(gate) == 1 })
			require.Equal(t, []string{lua.Waiter{Queue: "default", Bytes: payloads[n]}.String()}, r.list(r.keys.WaitingList(gate.Name)))
		}
		require.Empty(t, ran)
		require.Empty(t, r.set(r.keys.Retry()))
	})
}

// The log has the words that operators give and read, not those in which Redis keeps them.
func TestTheLogHasTheWordsOfOperatorsForRulesAndSizes(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		own := &launcher.ClassLimit{Limit: limit.Limit{Name: "own", Concurrency: 3, Rate: limit.Window(100, time.Minute)}, Key: func(*job.Job) (string, error) { return "", nil }}
		l.Handle("Limited", func(context.Context, *job.Job) error { return nil }, launcher.Class{Limit: own})
		_, err := r.keys.ChangeLimits(lua.LimitSet, []lua.LimitChange{{Name: "own", Size: lua.Size{Concurrency: 1}}}).Do(t.Context(), r.client)
		require.NoError(t, err)
		r.rule(lua.ClassRule{Class: "Paused"})
		r.rule(lua.ClassRule{Class: "Dropped", Drop: true})
		r.rule(lua.ClassRule{Class: "Few", Concurrency: 5})
		r.start(l)
		r.obeyed("Paused", "pause")
		r.obeyed("Dropped", "drop")
		r.obeyed("Few", "limit 5")
		r.eventually("the line about the size", func() bool {
			return strings.Contains(r.log.String(), `"limit":"own","declared":"concurrency 3, rate 100/1m"`)
		})
	})
}

// A rule goes before the limit that the program declares for the class, and when it is over that limit counts again.
func TestAClassWithARuleAndALimitObeysTheRule(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		var running, most atomic.Int64
		began, free := make(chan bool, 100), make(chan struct{})
		own := &launcher.ClassLimit{Limit: limit.Limit{Name: "own", Concurrency: 3}, Key: func(*job.Job) (string, error) { return "k", nil }}
		l.Handle("Limited", func(context.Context, *job.Job) error {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			began <- true
			<-free
			running.Add(-1)
			return nil
		}, launcher.Class{Limit: own})
		gate := r.rule(lua.ClassRule{Class: "Limited", Concurrency: 2})
		for range 6 {
			r.push("Limited", "[]")
		}
		r.start(l)
		receive(t, "a run", began)
		receive(t, "a run", began)
		r.eventually("the others to wait", func() bool { return r.waiters(gate) == 4 })
		require.Equal(t, int64(0), r.do("EXISTS", r.keys.WaitingList("own:k")))
		r.rule(lua.ClassRule{Class: "Limited", Concurrency: 4})
		receive(t, "a run", began)
		receive(t, "a run", began)
		close(free)
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "6" })
		require.Equal(t, int64(4), most.Load())
		r.noRule("Limited")
		r.eventually("the rule to be over", func() bool { return strings.Contains(r.log.String(), "rule of a class is over") })
		r.push("Limited", "[]")
		r.eventually("a run with the class' own limit", func() bool { return r.counter(r.keys.Processed()) == "7" })
		r.eventually("no slot to be left", func() bool { return r.do("EXISTS", r.keys.Gates(), r.keys.Admitted(), r.keys.Waiting()) == int64(0) })
	})
}

// A process that has not read yet that the rule of a class is over runs no job of it past the limit of the program.
func TestAJobWaitsForTheLimitOfItsClassWhenARuleIsOver(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.PollWait = 1
		l := r.build(cfg)
		ran := make(chan bool, 100)
		own := &launcher.ClassLimit{Limit: limit.Limit{Name: "own", Concurrency: 1}, Key: func(*job.Job) (string, error) { return "k", nil }}
		l.Handle("Limited", func(context.Context, *job.Job) error { ran <- true; return nil }, launcher.Class{Limit: own})
		gate := r.rule(lua.ClassRule{Class: "Limited"})
		r.start(l)
		r.obeyed("Limited", "pause")
		r.do("DEL", r.keys.Classes()) // without the event
		r.do("HDEL", r.keys.Limits(), strings.TrimSuffix(gate.Name, ":"))
		r.push("Limited", "[]")
		r.eventually("the job to wait", func() bool { return r.waiters(gate) == 1 })
		require.Empty(t, ran)
		r.rule(lua.ClassRule{Class: "Other"})
		r.obeyed("Other", "pause")
		receive(t, "a run", ran)
	})
}

// A class that an operator drops starts no job, whether it waits in the queue or for the rule before.
func TestADroppedClassEndsItsJobsBeforeTheyStart(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.PollWait = 1
		l := r.build(cfg)
		ran := make(chan string, 100)
		l.Handle("Dropped", func(context.Context, *job.Job) error { ran <- "dropped"; return nil }, launcher.Class{})
		l.Handle("Free", func(context.Context, *job.Job) error { ran <- "free"; return nil }, launcher.Class{})
		gate := r.rule(lua.ClassRule{Class: "Dropped"})
		r.push("Dropped", "[]")
		w := r.start(l)
		r.eventually("the job to wait", func() bool { return r.waiters(gate) == 1 })
		r.rule(lua.ClassRule{Class: "Dropped", Drop: true})
		r.obeyed("Dropped", "drop")
		r.push("Dropped", "[]")
		r.push("Free", "[]")
		r.eventually("all to be counted", func() bool { return r.counter(r.keys.Processed()) == "3" })
		require.Equal(t, "free", receive(t, "the run of another class", ran))
		require.Empty(t, ran)
		require.Empty(t, r.counter(r.keys.Failed()))
		require.Contains(t, r.log.String(), `"reason":"rule of its class"`)
		for _, counts := range w.Counters().Runs {
			if counts.Class == "Dropped" {
				require.Equal(t, uint64(2), counts.Exits[slices.Index(job.Exits[:], job.ExitCancelled)])
			}
		}
		r.eventually("no slot to be left", func() bool {
			return r.do("EXISTS", r.keys.Gates(), r.keys.Admitted(), r.keys.Waiting()) == int64(0)
		})
	})
}

// A user of Redis that may not read the rules is reported, and works as before there were rules.
func TestAProcessThatMayNotReadTheRulesWorks(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRig(t, openers["go-redis"], server.URL(), drivertest.Prefix(t))
	r.do("ACL", "SETUSER", "default", "-hscan")
	t.Cleanup(func() { _, _ = server.Do(context.Background(), "ACL", "SETUSER", "default", "+@all") })
	l := r.build(r.config())
	ran := make(chan bool, 1)
	l.Handle("Runs", func(context.Context, *job.Job) error { ran <- true; return nil }, launcher.Class{})
	r.push("Runs", "[]")
	r.start(l)
	receive(t, "a run", ran)
}
