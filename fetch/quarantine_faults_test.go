package fetch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// stepAll lets each of them do its due work.
func stepAll(rs ...*rig) {
	for _, r := range rs {
		once := false
		r.pump("step", func() bool { was := once; once = true; return was })
	}
}

// pumpAll lets all of them work and beat for a while, and answers whether a condition came true.
func pumpAll(d time.Duration, until func() bool, rs ...*rig) bool {
	end, beat := time.Now().Add(d), time.Now()
	for time.Now().Before(end) {
		if time.Now().After(beat) {
			beat = time.Now().Add(300 * time.Millisecond)
			for _, r := range rs {
				r.beat()
			}
		}
		stepAll(rs...)
		if until() {
			return true
		}
	}
	return false
}

func TestNoOrphanedEntryIsStartedBesideAQuarantinedJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 && r.running[0].quarantined }, r))
	late := payload("mail") // what a half-open idle wait brings after its client gave it up
	r.do("LPUSH", r.keys.Working("mail", r.session.Identity), late)
	beside := pumpAll(3*time.Second, func() bool { return len(r.running) == 2 }, r)
	require.False(t, beside, "an ordinary job was started beside the quarantined job; if it kills the process the quarantined job dies")
}

func TestWhatAnEarlierWaitBringsWaitsForTheQuarantinedJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	waiter, err := r.direct.Waiter()
	require.NoError(t, err)
	gone := make(chan bool)
	go func() { // what stays at the server of a wait that the worker has given up
		_, ok, _ := waiter.Wait(context.Background(), r.keys.Queue("mail"), r.keys.Working("mail", r.session.Identity), rigPatience)
		gone <- ok
	}()
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 && r.running[0].quarantined }, r))
	r.push("mail", 1)
	require.True(t, <-gone)
	require.False(t, pumpAll(3*time.Second, func() bool { return len(r.running) == 2 }, r),
		"an ordinary job was started beside the quarantined job")
	require.NoError(t, waiter.Close())
}

func TestQuietGivesADrainBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.loop.cfg.DrainFor = 20 * time.Second
	r.push("mail", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 }, r))
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	require.True(t, pumpAll(rigPatience, func() bool { return r.loop.quarantine.draining != nil }, r))
	r.loop.beQuiet()
	r.end(done)
	pumpAll(2*time.Second, func() bool { return false }, r)
	held, err := r.keys.Drain("mail", "another", time.Minute, time.Minute).Do(r.ctx, r.direct)
	require.NoError(t, err)
	require.True(t, held, "no other process may drain")
}

func TestWhoDrainsForLongIsNotPutOutByOneWhoDrainsForLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	held, err := r.keys.Drain("mail", "long", time.Minute, time.Minute).Do(r.ctx, r.direct)
	require.NoError(t, err)
	require.True(t, held)
	held, err = r.keys.Drain("mail", "short", 10*time.Second, time.Minute).Do(r.ctx, r.direct)
	require.NoError(t, err)
	require.False(t, held, "both drain")
}

func TestAQuarantinedJobOfUnknownQueueStaysWhereItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.do("LPUSH", r.keys.QuarantineRun(r.session.Identity), crashedTwice("mail"))
	r.do("HSET", r.keys.Record(r.session.Identity), "quarantine_queue", "mail")
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "HGET", Do: faultproxy.Close()})
	pumpAll(5*time.Second, func() bool { return len(r.k.reconcile.orphaned) == 1 }, r)
	t.Logf("found %d", len(r.k.reconcile.orphaned))
	r.loop.beQuiet()
	pumpAll(time.Second, func() bool { return r.loop.settled() }, r)
	require.Empty(t, r.list(r.keys.Quarantine("")), "a list that is never read")
}

func TestOrdinaryJobsHaveTheirTurnBetweenQuarantinedJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.loop.cfg.DrainFor = 10 * time.Second
	r.push("mail", 500)
	for range 60 {
		r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	}
	order := ""
	started := map[*Run]time.Time{}
	pumpAll(rigPatience, func() bool {
		var left []*Run
		for _, h := range r.running {
			if started[h].IsZero() {
				started[h] = time.Now()
				if h.quarantined {
					order += "S"
				} else {
					order += "."
				}
			}
			if time.Since(started[h]) > 20*time.Millisecond {
				r.finish(h, job.Done())
			} else {
				left = append(left, h)
			}
		}
		r.running = left
		return strings.Count(order, "S") == 60
	}, r)
	t.Log(order)
	first, last := strings.Index(order, "S"), strings.LastIndex(order, "S")
	require.Contains(t, order[first:last], ".", "no ordinary job is started as long as there is a quarantined job")
}

func TestNotTheWholeFleetServesQuarantinedJobs(t *testing.T) {
	t.Parallel()
	addr, prefix := drivertest.Redis(t).Addr(), drivertest.Prefix(t)
	var rs []*rig
	for range 4 {
		r := newRigOn(t, clients["go-redis"], addr, prefix, 2, "mail")
		r.loop.cfg.DrainFor = 10 * time.Second
		rs = append(rs, r)
	}
	r := rs[0]
	r.push("mail", 2000)
	for range 200 {
		r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	}
	started := map[*Run]time.Time{}
	most := 0
	lastOrdinary, allAt := time.Now(), time.Time{}
	begin := time.Now()
	pumpAll(12*time.Second, func() bool {
		alone := 0
		for _, r := range rs {
			var left []*Run
			for _, h := range r.running {
				if started[h].IsZero() {
					started[h] = time.Now()
					if !h.quarantined {
						lastOrdinary = time.Now()
					}
				}
				if h.quarantined {
					alone++
				}
				limit := 30 * time.Millisecond
				if h.quarantined {
					limit = 300 * time.Millisecond
				}
				if time.Since(started[h]) > limit {
					r.finish(h, job.Done())
				} else {
					left = append(left, h)
				}
			}
			r.running = left
		}
		most = max(most, alone)
		if most == 4 && allAt.IsZero() {
			allAt = time.Now()
		}
		return false
	}, rs...)
	t.Logf("quarantined jobs at once in a fleet of 4: %d (all at %v); the last ordinary job was started at %v of 12s; quarantined left %d, ordinary left %d", most, allAt.Sub(begin), lastOrdinary.Sub(begin),
		len(r.list(r.keys.Quarantine("mail"))), len(r.list(r.keys.Queue("mail"))))
	require.Less(t, most, 4, "the whole fleet serves quarantined jobs")
}

// commandsOf is how many commands a server has executed.
func commandsOf(r *rig) int {
	text, _ := r.do("INFO", "stats").(string)
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "total_commands_processed:%d", &n); err == nil {
			return n
		}
	}
	return -1
}

func TestARefusedDrainIsNoSpin(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRigOn(t, clients["go-redis"], server.Addr(), "b", 1, "mail")
	r.loop.cfg.DrainFor = 2 * time.Second
	r.push("mail", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 }, r))
	r.do("SET", r.keys.Draining("mail"), "x") // or a user who may not ZREMRANGEBYSCORE
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	r.beat()
	before := commandsOf(r)
	until := time.Now().Add(2 * time.Second)
	r.pump("a while", func() bool { return time.Now().After(until) })
	calls := (commandsOf(r) - before) / 2
	require.Less(t, calls, 20, "commands a second, one beat")
}

// requestsOf is how many requests came through the rig's proxy.
func requestsOf(r *rig) (n int) {
	for _, c := range r.proxy.Counts() {
		n += c
	}
	return n
}

func TestARefusedTakeOfAQuarantinedJobIsNoSpin(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRigOn(t, clients["go-redis"], server.Addr(), "b", 1, "mail")
	r.loop.cfg.DrainFor = 2 * time.Second
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	r.push("mail", 1)
	_, sha := r.keys.TakeQuarantined("x", []string{"mail"}, nil).Call.Script.Text(true)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: sha, Do: faultproxy.Fail("NOPERM this user may not")})
	r.pump("the job", func() bool { return len(r.running) == 1 })
	r.end(done)
	r.pump("the wait", func() bool { return r.k.openWaits() == 1 })
	r.beat()
	r.pump("the refusal", func() bool { return strings.Contains(r.log.String(), "NOPERM") })
	r.push("mail", 1)
	before := requestsOf(r)
	until := time.Now().Add(2 * time.Second)
	r.pump("a while", func() bool { return time.Now().After(until) })
	calls := (requestsOf(r) - before) / 2
	t.Logf("%d commands/s through the proxy; ordinary jobs running: %d", calls, len(r.running))
	require.Less(t, calls, 20, "commands a second, one beat")
}

func TestNothingRunsBesideALostQuarantinedJob(t *testing.T) {
	t.Parallel()
	r := newCapsules(t, clients["go-redis"], 2*time.Second)
	r.do("RPUSH", r.keys.Quarantine("mail"), crashedTwice("mail"))
	_, _ = r.keys.TakeQuarantined("x", []string{"mail"}, nil).Do(r.ctx, r.direct) // loads the script
	_, sha := r.keys.TakeQuarantined("x", []string{"mail"}, nil).Call.Script.Text(true)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: sha, Nth: 1, Do: faultproxy.Close()})
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.list(r.keys.QuarantineRun(r.session.Identity))) == 1 }, r))
	r.push("other", 1)
	beside := pumpAll(3*time.Second, func() bool {
		return len(r.of("other")) == 1 && len(r.list(r.keys.QuarantineRun(r.session.Identity))) == 1
	}, r)
	require.False(t, beside, "the other capsule's job runs while the quarantined one lies in its list: if it kills the process, that is moved to the dead set unstarted")
}
