package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// A guild is unique jobs of one class on a site: who pushes them, and a worker in this process whose handler a
// test makes.
type guild struct {
	*site
	producer driver.Client // of pusher
	pusher   *client.Client

	mu   sync.Mutex
	runs []string // jids, in the order of their starts
}

func newGuild(t *testing.T, s *site) *guild {
	t.Helper()
	producer := s.driverOf(check.RoleProducer)
	pusher, err := client.New(producer, client.Config{Prefix: s.prefix, RepeatFor: -1})
	require.NoError(t, err)
	return &guild{site: s, producer: producer, pusher: pusher}
}

// eachGuild runs a test with either Redis client, on audited servers: the oracle holds at every step that a
// lock lives as its job does.
func eachGuild(t *testing.T, test func(t *testing.T, g *guild), options ...oracle.Option) {
	t.Helper()
	eachClient(t, func(t *testing.T, s *site) { test(t, newGuild(t, s)) }, options...)
}

// Rules of jobs that nearly all tests here use. No lock runs out while a test waits for it to be freed.
func untilExecuting() *dedup.Rule { return &dedup.Rule{Until: dedup.UntilExecuting, TTL: time.Hour} }
func untilExecuted() *dedup.Rule  { return &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Hour} }
func onceMore() *dedup.Rule {
	return &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Hour, RescheduleOnce: true}
}

// ofOne is a job that counts as the same as every other of its rule.
func ofOne(rule *dedup.Rule) client.RawJob {
	return client.RawJob{Class: "HardWorker", ArgsJSON: "[1,0]", Unique: rule}
}

// ask pushes a job and answers its receipt.
func (g *guild) ask(j client.RawJob) client.Receipt {
	g.t.Helper()
	receipt, err := g.pusher.Push(context.Background(), j)
	require.NoError(g.t, err)
	return receipt
}

// accepts holds that a job is stored, and answers its jid.
func (g *guild) accepts(j client.RawJob) string {
	g.t.Helper()
	receipt := g.ask(j)
	require.NotEqual(g.t, client.StatusDuplicate, receipt.Status, "a duplicate of %s", receipt.Holder)
	return receipt.JID
}

// refuses holds that it is refused, and for whose sake.
func (g *guild) refuses(j client.RawJob, holder string) {
	g.t.Helper()
	receipt := g.ask(j)
	require.Equal(g.t, client.StatusDuplicate, receipt.Status)
	require.Equal(g.t, holder, receipt.Holder)
}

// locks are the keys of locks that stand.
func (g *guild) locks() []string { g.t.Helper(); return texts(g.do("KEYS", g.keys.Lock("*"))) }

// serve runs a worker in this process until the test stops it. A handler that is nil does nothing.
func (g *guild) serve(handler func(ctx context.Context, j *job.Job) error) (stop func()) {
	g.t.Helper()
	l, err := launcher.New(launcher.Config{
		Client: g.driverOf(check.RoleWorker), Prefix: g.prefix, Queues: []fetch.Queue{{Name: "default"}}, Concurrency: 3,
		Beat: 200 * time.Millisecond, TTL: time.Second, ShutdownTimeout: -1,
	})
	require.NoError(g.t, err)
	l.Handle(launcher.AnyClass, func(ctx context.Context, j *job.Job) error {
		g.mu.Lock()
		g.runs = append(g.runs, j.JID())
		g.mu.Unlock()
		if handler == nil {
			return nil
		}
		return handler(ctx, j)
	}, launcher.Class{})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	stop = sync.OnceFunc(func() {
		l.Stop()
		require.NoError(g.t, <-ended)
	})
	g.t.Cleanup(stop)
	return stop
}

func (g *guild) started() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.runs...)
}

// settles waits until every job has ended, and holds that no lock is left.
func (g *guild) settles() {
	g.t.Helper()
	// Both, because a job that moves while the lists are read one by one may be seen in none.
	eventually(g.t, "all jobs to end, and their locks", func() bool { return g.waiting() == 0 && len(g.locks()) == 0 })
	require.Zero(g.t, g.do("ZCARD", g.keys.Unique()), "the index of locks")
}

// A producer that dies, or is cut off, at its push leaves a job with its lock or neither.
func TestUniquePushIsOneStep(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		for name, rule := range map[string]func(token string) faultproxy.Rule{
			"the request is lost": faultproxy.DropRequest, "the answer is lost": faultproxy.DropReply,
		} {
			t.Run(name, func(t *testing.T) {
				proxy := faultproxy.New(t, s.server.Addr())
				g := newGuild(t, s.by(proxy.URL()))
				j := ofOne(untilExecuted())
				j.ArgsJSON = fmt.Sprintf("[%q]", name)
				g.accepts(j) // and the script is known
				j.JID, j.ArgsJSON = job.NewJID(), fmt.Sprintf("[%q,2]", name)
				proxy.Add(rule(j.JID))
				locks, jobs := len(g.locks()), len(g.list(g.keys.Queue("default")))
				_, err := g.pusher.Push(t.Context(), j)
				require.Error(t, err)
				eventually(t, "a lock for each job", func() bool {
					return len(g.locks())-locks == len(g.list(g.keys.Queue("default")))-jobs
				})
				require.Equal(t, j.JID, g.accepts(j), "its own lock is not in its way")
				require.Len(t, g.list(g.keys.Queue("default")), jobs+1)
				j.JID = ""
				require.Equal(t, client.StatusDuplicate, g.ask(j).Status)
			})
		}
		for when, kill := range map[string]func(f func()) faultproxy.Rule{
			"killed before its push is read":    func(f func()) faultproxy.Rule { return onPush(faultproxy.Requests, faultproxy.Before(f)) },
			"killed when its push was executed": func(f func()) faultproxy.Rule { return onPush(faultproxy.Replies, faultproxy.Before(f)) },
		} {
			t.Run(when, func(t *testing.T) {
				proxy := faultproxy.New(t, s.server.Addr())
				g := newGuild(t, s)
				locks, jobs := len(g.locks()), len(g.list(g.keys.Queue("default")))
				var producer *process
				begun := make(chan struct{})
				proxy.Add(kill(func() { <-begun; faultproxy.Kill(t, producer.pid)() }))
				producer = s.launch(belayPath, "push", "HardWorker", fmt.Sprintf("%q", when), `"a-push-of-mine"`, "--unique", "until_executed",
					"--redis", proxy.URL(), "--prefix", s.prefix, "--client", s.client)
				close(begun)
				require.Equal(t, -1, producer.wait(), "%s", producer.log())
				eventually(t, "a lock for each job", func() bool {
					return len(g.locks())-locks == len(g.list(g.keys.Queue("default")))-jobs
				})
			})
		}
		t.Run("all of them run", func(t *testing.T) {
			g := newGuild(t, s)
			g.serve(nil)
			g.settles()
		})
	})
}

func onPush(on faultproxy.Direction, do faultproxy.Action) faultproxy.Rule {
	return faultproxy.Rule{On: on, Token: "a-push-of-mine", Nth: 1, Do: do}
}

// What is not stored takes no lock: whatever refuses a push, the next one of its kind is accepted.
func TestPushThatStoresNothingTakesNoLock(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		free := func(why string) {
			t.Helper()
			require.Empty(t, g.locks(), why)
		}
		large := ofOne(&dedup.Rule{Until: dedup.UntilExecuted, Positions: []int{1}})
		large.ArgsJSON = `[1,"` + strings.Repeat("x", job.DefaultPayloadLimit) + `"]`
		var invalid *client.InvalidError
		_, err := g.pusher.Push(t.Context(), large)
		require.ErrorAs(t, err, &invalid)
		free("too large")

		halting, err := client.New(g.producer, client.Config{Prefix: g.prefix})
		require.NoError(t, err)
		halting.Use("halt", func(context.Context, *client.RawJob) error { return client.Refuse("not today") })
		receipt, err := halting.Push(t.Context(), ofOne(untilExecuted()))
		require.NoError(t, err)
		require.Equal(t, client.StatusRefused, receipt.Status)
		free("a middleware's refusal")

		j := ofOne(untilExecuted())
		j.Queue = "broken"
		g.do("SET", g.keys.Queue("broken"), "no list")
		_, err = g.pusher.Push(t.Context(), j)
		require.ErrorContains(t, err, "WRONGTYPE")
		free("a broken queue")
		g.do("DEL", g.keys.Queue("broken"))

		g.do("CONFIG", "SET", "maxmemory", "1")
		_, err = g.pusher.Push(t.Context(), ofOne(untilExecuted()))
		require.ErrorIs(t, err, client.ErrFull)
		g.do("CONFIG", "SET", "maxmemory", "0")
		free("a full Redis")

		mine := ofOne(untilExecuted())
		mine.JID = job.NewJID()
		require.Equal(t, mine.JID, g.accepts(mine))
		require.Equal(t, mine.JID, g.accepts(mine), "the same job again is there already")
		g.refuses(ofOne(untilExecuted()), mine.JID)
		require.Len(t, g.list(g.keys.Queue("default")), 1)
		stop := g.serve(nil)
		g.settles()
		stop()
		g.accepts(ofOne(untilExecuted()))
		g.serve(nil)
		g.settles()
	})
}

// However a job ends, its lock ends with it; and no earlier.
func TestLocksEndWithTheirJobs(t *testing.T) {
	failure := errors.New("on purpose")
	for name, c := range map[string]struct {
		outcome func(n int) error
		runs    int
		dead    int64
	}{
		"done":                     {func(int) error { return nil }, 1, 0},
		"discarded":                {func(int) error { return retry.Discard(failure) }, 1, 0},
		"killed by its handler":    {func(int) error { return retry.Kill(failure) }, 1, 1},
		"out of retries":           {func(int) error { return retry.In(10*time.Millisecond, failure) }, 3, 1},
		"a panic each time":        {func(int) error { panic("on purpose") }, 1, 1},
		"done at the second retry": {func(n int) error { return map[bool]error{true: retry.In(0, failure)}[n < 3] }, 3, 0},
		"snoozed twice, then done": {func(n int) error { return map[bool]error{true: retry.Snooze(10 * time.Millisecond)}[n < 3] }, 3, 0},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			eachGuild(t, func(t *testing.T, g *guild) {
				j := ofOne(untilExecuted())
				j.Retry = job.RetryRule{Kind: job.RetryLimit, Limit: 2}
				if strings.Contains(name, "panic") {
					j.Retry = job.RetryRule{Kind: job.RetryLimit}
				}
				first, refused := g.accepts(j), 0
				stop := g.serve(func(ctx context.Context, _ *job.Job) error {
					if receipt, err := g.pusher.Push(ctx, j); err == nil && receipt.Holder == first {
						g.mu.Lock()
						refused++
						g.mu.Unlock()
					}
					return c.outcome(len(g.started()))
				})
				g.settles()
				stop()
				require.Len(t, g.started(), c.runs)
				require.Equal(t, c.runs, refused, "while it lives, others are refused for its sake")
				require.Equal(t, c.dead, g.do("ZCARD", g.keys.Dead()))
				g.accepts(j)
			})
		})
	}
}

// While a failed job waits for its retry, no other of its kind is accepted; with until_executing one is.
func TestLocksAreKeptThroughRetries(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		for name, c := range map[string]struct {
			rule  *dedup.Rule
			holds bool
		}{"executed": {untilExecuted(), true}, "executing": {untilExecuting(), false}} {
			j := ofOne(c.rule)
			j.ArgsJSON = fmt.Sprintf("[%q]", name)
			first := g.accepts(j)
			failed := make(chan struct{}, 1)
			stop := g.serve(func(_ context.Context, running *job.Job) error {
				if running.JID() == first && len(failed) == 0 {
					failed <- struct{}{}
					return retry.In(time.Hour, errors.New("on purpose"))
				}
				return nil
			})
			eventually(t, "the retry", func() bool { return len(g.set(g.keys.Retry())) == 1 })
			if c.holds {
				g.refuses(j, first)
			} else {
				g.accepts(j)
			}
			_, errs, code := g.belay("retries", "retry", "--all")
			require.Zero(t, code, "%s", errs)
			g.settles()
			stop()
		}
	}, oracle.Acts())
}

// A job is never in its own way: not when its time has come, not at its retry, not when its worker died.
func TestOwnLockBlocksNothing(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		var jids []string
		n := 0
		for _, rule := range []*dedup.Rule{untilExecuting(), untilExecuted(), onceMore()} {
			for _, scheduled := range []bool{false, true} {
				own := *rule
				own.IncludingScheduled = scheduled
				j := ofOne(&own)
				n++
				j.ArgsJSON, j.In = fmt.Sprintf("[%d]", n), time.Duration(n)*20*time.Millisecond
				jids = append(jids, g.accepts(j))
			}
		}
		seen := make(map[string]int)
		var mu sync.Mutex
		g.serve(func(_ context.Context, j *job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			if seen[j.JID()]++; seen[j.JID()] == 1 {
				return retry.In(10*time.Millisecond, errors.New("on purpose"))
			}
			return nil
		})
		eventually(t, "the runs", func() bool { return len(g.started()) == 2*len(jids) })
		g.settles()
		for _, jid := range jids {
			require.Equal(t, 2, seen[jid])
		}
	})
}

// The lock is there for as long as it was said, whatever was said.
func TestTTLs(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		n := 0
		left := func(rule dedup.Rule, change func(j *client.RawJob)) (ms int64) {
			t.Helper()
			n++
			j := ofOne(&rule)
			j.ArgsJSON = fmt.Sprintf("[%d]", n)
			if change != nil {
				change(&j)
			}
			jid := g.accepts(j)
			lock, err := rule.Lock(job.Draft{Class: j.Class, JID: jid, ArgsJSON: j.ArgsJSON})
			require.NoError(t, err)
			ms, _ = g.do("PTTL", g.keys.Lock(lock.Digest)).(int64)
			return ms
		}
		within := func(want time.Duration, ms int64) {
			t.Helper()
			require.LessOrEqual(t, ms, want.Milliseconds())
			require.Greater(t, ms, (want - 10*time.Second).Milliseconds())
		}
		until := dedup.UntilExecuted
		within(dedup.DefaultTTL, left(dedup.Rule{Until: until}, nil))
		within(dedup.MaxTTL, left(dedup.Rule{Until: until, TTL: dedup.MaxTTL}, nil))
		require.LessOrEqual(t, left(dedup.Rule{Until: until, TTL: time.Millisecond}, nil), int64(1))
		require.LessOrEqual(t, left(dedup.Rule{Until: until, TTL: 500 * time.Millisecond}, nil), int64(500))
		scheduled := dedup.Rule{Until: until, TTL: time.Second, IncludingScheduled: true}
		within(time.Hour+time.Second, left(scheduled, func(j *client.RawJob) { j.In = time.Hour }))
		within(time.Hour+time.Second, left(scheduled, func(j *client.RawJob) { j.At = time.Now().Add(time.Hour) }))
		within(time.Second, left(scheduled, func(j *client.RawJob) { j.At = time.Now().Add(-time.Hour) }))
		for _, ttl := range []time.Duration{-1, -time.Hour, time.Microsecond, dedup.MaxTTL + 1} {
			var invalid *client.InvalidError
			_, err := g.pusher.Push(t.Context(), ofOne(&dedup.Rule{Until: until, TTL: ttl}))
			require.ErrorAs(t, err, &invalid, "%v", ttl)
		}
	})
}

// A lock that ran out while its job waited costs the job nothing: both it and the one that came after run.
func TestLapsedLockDropsNoJob(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		for _, rule := range []*dedup.Rule{untilExecuting(), untilExecuted()} {
			j := ofOne(rule)
			rule.TTL = time.Millisecond
			first := g.accepts(j)
			eventually(t, "the lock to run out", func() bool { return len(g.locks()) == 0 })
			rule.TTL = time.Minute
			second := g.accepts(j)
			g.refuses(j, second)
			runs := len(g.started())
			stop := g.serve(nil)
			g.settles()
			stop()
			require.ElementsMatch(t, []string{first, second}, g.started()[runs:])
		}
	})
}

// A lock that Redis lost, by an eviction or a failover, lets duplicates in and stops no job.
func TestLostLocksStopNoJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, drivertest.Redis(t)) // which no oracle audits: it would see that locks are missing
	g := newGuild(t, s)
	first := g.accepts(ofOne(onceMore()))
	g.do("DEL", g.locks()[0])
	second := g.accepts(ofOne(onceMore()))
	g.do("DEL", g.locks()[0])
	g.serve(nil)
	// Both, because a job that moves while the lists are read one by one may be seen in none.
	eventually(t, "both to end", func() bool { return len(g.started()) >= 2 && g.waiting() == 0 })
	require.ElementsMatch(t, []string{first, second}, g.started())
	g.accepts(ofOne(onceMore()))
	g.settles()
}

// A worker frees the lock that the payload names, whatever it would have computed itself: its version may be
// another.
func TestLockOfAnotherVersionIsFreed(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		digest, jid := strings.Repeat("0123456789abcdef", 4), job.NewJID()
		payload := strings.TrimSuffix(rubyPayload("HardWorker", "default", "[1]", jid), "}") +
			`,"belay_unique":{"digest":"` + digest + `","until":"until_executed","ttl_ms":60000,"again":true,"of_a_later_version":[]}}`
		answer, err := g.keys.PushUnique(nil, []lua.NewJob{{
			Queue: "default", Job: payload,
			Lock: &lua.Lock{Digest: digest, Owner: lua.OwnerOf(jid, "HardWorker"), Hold: time.Minute},
		}}).Do(t.Context(), g.producer)
		require.NoError(t, err)
		require.Equal(t, []string{""}, answer.Holders)
		g.serve(nil)
		g.settles()
	})
}
