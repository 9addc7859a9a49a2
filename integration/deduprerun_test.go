package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// However many are refused while a job runs, they are one more run; what is refused before is served by the run
// itself.
func TestRescheduleOnceIsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		before, during, again int // refused before the start, in the first run, in the second
		runs                  int
	}{
		"no push asks":                    {0, 0, 0, 1},
		"asked before the start":          {20, 0, 0, 1},
		"asked while it runs":             {0, 50, 0, 2},
		"asked before and while":          {5, 5, 0, 2},
		"asked while the second one runs": {0, 1, 50, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachGuild(t, func(t *testing.T, g *guild) {
				first := g.accepts(ofOne(onceMore()))
				for range c.before {
					g.refuses(ofOne(onceMore()), first)
				}
				ask := func(ctx context.Context, n int, holder string) {
					var all sync.WaitGroup
					for range n {
						all.Go(func() {
							receipt, err := g.pusher.Push(ctx, ofOne(onceMore()))
							if err != nil || receipt.Holder != holder {
								t.Errorf("refused for the sake of %q, not of %q: %v", receipt.Holder, holder, err)
							}
						})
					}
					all.Wait()
				}
				stop := g.serve(func(ctx context.Context, j *job.Job) error {
					switch len(g.started()) {
					case 1:
						ask(ctx, c.during, j.JID())
					case 2:
						ask(ctx, c.again, j.JID())
					}
					return nil
				})
				g.settles()
				stop()
				require.Len(t, g.started(), c.runs)
				require.Equal(t, fmt.Sprint(c.runs), g.text(g.keys.Processed()))
			})
		})
	}
}

// What was refused is remembered through a failure, and served when the job has ended, well or badly; not when
// another job had the lock by then.
func TestRescheduleOnceOutlives(t *testing.T) {
	failure := errors.New("on purpose")
	for name, c := range map[string]struct {
		first, last error // how the first run ends, and its retry
		lapses      bool
		runs        int
		dead        int64
	}{
		"a retry":             {first: retry.In(0, failure), runs: 3},
		"a snooze":            {first: retry.Snooze(0), runs: 3},
		"its death":           {first: retry.In(0, failure), last: retry.Kill(failure), runs: 3, dead: 1},
		"a discard":           {first: retry.Discard(failure), runs: 2},
		"not the lock itself": {first: retry.In(0, failure), lapses: true, runs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachGuild(t, func(t *testing.T, g *guild) {
				first := g.accepts(ofOne(onceMore()))
				stop := g.serve(func(ctx context.Context, j *job.Job) error {
					switch len(g.started()) {
					case 1:
						if receipt, err := g.pusher.Push(ctx, ofOne(onceMore())); err != nil || receipt.Holder != first {
							t.Errorf("refused for the sake of %q: %v", receipt.Holder, err)
						}
						return c.first
					case 2:
						if j.JID() == first && c.lapses {
							if _, errs, code := g.belay("locks", "release", g.digest()); code != 0 {
								t.Error(errs)
							}
						}
						if j.JID() == first {
							return c.last
						}
					}
					return nil
				})
				g.settles()
				stop()
				require.Len(t, g.started(), c.runs)
				require.Equal(t, c.dead, g.do("ZCARD", g.keys.Dead()))
			}, oracle.Acts())
		})
	}
}

// The rule travels with the job that has the lock: every duplicate that is refused while it runs triggers the
// rerun.
func TestRescheduleOnceIsTheOwnersRule(t *testing.T) {
	owner := ofOne(onceMore())
	owner.JID = "reindex-1"
	plain := ofOne(untilExecuted())
	for name, late := range map[string]client.RawJob{"the job itself, pushed again": owner, "one that does not say it": plain} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachGuild(t, func(t *testing.T, g *guild) {
				g.accepts(owner)
				stop := g.serve(func(ctx context.Context, _ *job.Job) error {
					if len(g.started()) == 1 {
						receipt, err := g.pusher.Push(ctx, late)
						if err != nil || receipt.Status != client.StatusDuplicate || receipt.Holder != owner.JID {
							t.Errorf("%+v: %v", receipt, err)
						}
					}
					return nil
				})
				g.settles()
				stop()
				require.Len(t, g.started(), 2)
			})
		})
	}
	t.Run("one that says it, of an owner that does not", func(t *testing.T) {
		t.Parallel()
		eachGuild(t, func(t *testing.T, g *guild) {
			first := g.accepts(plain)
			stop := g.serve(func(ctx context.Context, _ *job.Job) error {
				if receipt, err := g.pusher.Push(ctx, ofOne(onceMore())); err != nil || receipt.Holder != first {
					t.Errorf("%+v: %v", receipt, err)
				}
				return nil
			})
			g.settles()
			stop()
			require.Equal(t, []string{first}, g.started())
		})
	})
}

// digest is that of the only lock there is.
func (g *guild) digest() string {
	g.t.Helper()
	listed := texts(g.do("ZRANGE", g.keys.Unique(), "0", "-1"))
	require.Len(g.t, listed, 1)
	return listed[0]
}

// A worker that is killed at the end of a run that others wait for, on either side of the step, causes one more
// run and no more.
func TestRescheduleOnceSurvivesAKillAtTheEnd(t *testing.T) {
	t.Parallel()
	for at, c := range map[string]struct {
		on     faultproxy.Direction
		starts int // of the first job
	}{
		"before the settle is read": {faultproxy.Requests, 2},
		"when it was executed":      {faultproxy.Replies, 1},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, s *site) {
				g, book, proxy := newGuild(t, s), newLedger(t), faultproxy.New(t, s.server.Addr())
				enough := newLeave(t)
				work := func(s *site) *process {
					return s.work(append([]string{"-c", "1", "--exec", book.exec("HardWorker", "-until", enough.path)}, fast...)...)
				}
				victim := work(s.by(proxy.URL()))
				first := g.accepts(ofOne(onceMore()))
				book.awaitStart(first, 1)
				for range 10 {
					g.refuses(ofOne(onceMore()), first)
				}
				_, sha := g.keys.Settle(lua.Settlement{}).Call.Script.Text(true)
				s.instrument().Do(t.Context(), g.keys.Settle(lua.Settlement{Identity: "unknown"}).Call) // the server knows the script
				gate := faultproxy.NewGate()                                                            // which is never opened: what is held there is lost with the victim
				proxy.Add(faultproxy.Rule{On: c.on, Token: sha, Nth: 1, Do: faultproxy.Hold(gate)})
				enough.give()
				receive(t, "the settle", gate.Arrived())
				victim.kill()
				work(s)
				eventually(t, "one more run", func() bool { return len(book.starts("")) == c.starts+1 && g.waiting() == 0 })
				g.settles()
				require.Len(t, book.starts(first), c.starts)
				require.Len(t, book.starts(""), c.starts+1)
			})
		})
	}
}

// The run that follows is like the first, byte for byte, and shares nothing of its past.
func TestTheFollowerIsTheSameJob(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		j := ofOne(onceMore())
		j.ArgsJSON, j.Tags = `[18446744073709551615,1.0,{"b":[],"a":{}},"é\u2028"]`, []string{"x"}
		j.Extra = []job.Edit{{Name: "of_mine", JSON: `{"z":1.50}`}}
		first := g.accepts(j)
		var mu sync.Mutex
		var follower string
		g.serve(func(ctx context.Context, running *job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case running.JID() != first:
				follower = running.Raw()
				return nil
			case len(g.started()) == 1:
				receipt, err := g.pusher.Push(ctx, j)
				if err != nil || receipt.Status != client.StatusDuplicate {
					t.Errorf("%v: %v", receipt, err)
				}
				return retry.In(time.Millisecond, errors.New("on purpose"))
			}
			return nil
		})
		g.settles()
		parsed, err := job.Parse(follower)
		require.NoError(t, err)
		require.Equal(t, "[18446744073709551615,1.0,{\"b\":[],\"a\":{}},\"é\u2028\"]", parsed.ArgsJSON(), "as Ruby writes it")
		own, _ := parsed.Field("of_mine")
		require.Equal(t, `{"z":1.5}`, own)
		_, failed := parsed.RetryCount()
		require.False(t, failed)

	})
}
