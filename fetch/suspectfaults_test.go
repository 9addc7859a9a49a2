package fetch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// capsules are two fetchers in one process.
func capsules(t *testing.T, open opener, drainFor time.Duration) (mail, other *rig) {
	addr, prefix, company := drivertest.Redis(t).Addr(), drivertest.Prefix(t), &Company{}
	mail, other = newRigOn(t, open, addr, prefix, 2, "mail"), newRigOn(t, open, addr, prefix, 2, "other")
	for _, r := range []*rig{mail, other} {
		r.fetcher.cfg.DrainFor = drainFor
		r.fetcher.cfg.Company, r.fetcher.nudges = company, company.join(r.fetcher)
	}
	return mail, other
}

// stepAll lets all of them do what is to be done now.
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

func TestNoStrayIsStartedBesideASuspect(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 && r.running[0].alone }, r))
	late := payload("mail") // what a half-open idle wait brings after its client gave it up
	r.do("LPUSH", r.keys.Working("mail", r.life.Identity), late)
	beside := pumpAll(3*time.Second, func() bool { return len(r.running) == 2 }, r)
	require.False(t, beside, "an ordinary job was started beside the suspect; if it kills the process the suspect is buried")
}

func TestWhatAWaitOfBeforeBringsWaitsForTheSuspect(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	waiter, err := r.direct.Waiter()
	require.NoError(t, err)
	gone := make(chan bool)
	go func() { // what stays at the server of a wait that the worker has given up
		_, ok, _ := waiter.Wait(context.Background(), r.keys.Queue("mail"), r.keys.Working("mail", r.life.Identity), rigPatience)
		gone <- ok
	}()
	r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 && r.running[0].alone }, r))
	r.push("mail", 1)
	require.True(t, <-gone)
	require.False(t, pumpAll(3*time.Second, func() bool { return len(r.running) == 2 }, r),
		"an ordinary job was started beside the suspect")
	require.NoError(t, waiter.Close())
}

func TestQuietGivesADrainBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.fetcher.cfg.DrainFor = 20 * time.Second
	r.push("mail", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 }, r))
	r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	require.True(t, pumpAll(rigPatience, func() bool { return r.fetcher.suspects.draining != "" }, r))
	r.fetcher.Quiet()
	r.end(done)
	pumpAll(2*time.Second, func() bool { return false }, r)
	held, err := r.keys.Drain("mail", "another", time.Minute, time.Minute).Do(r.ctx, r.direct)
	require.NoError(t, err)
	require.True(t, held, "nobody else may drain")
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

func TestAQuietFetcherKeepsTheProcessWhileItsSuspectRuns(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	mail.do("RPUSH", mail.keys.Quarantine("mail"), suspect("mail", 2))
	require.True(t, pumpAll(rigPatience, func() bool { return len(mail.running) == 1 && mail.running[0].alone }, mail, other))
	other.push("other", 1)
	require.False(t, pumpAll(500*time.Millisecond, func() bool { return len(other.running) > 0 }, mail, other))
	mail.fetcher.Quiet()
	require.False(t, pumpAll(2*time.Second, func() bool { return len(other.running) > 0 }, mail, other),
		"the other capsule runs a job beside the suspect")
}

func TestTwoLostSuspectsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	for i, r := range []*rig{mail, other} {
		q := []string{"mail", "other"}[i]
		r.do("LPUSH", r.keys.QuarantineRun(r.life.Identity), suspect(q, 2))
		r.do("HSET", r.keys.Record(r.life.Identity), "alone", q)
	}
	require.True(t, pumpAll(rigPatience, func() bool { return len(mail.running)+len(other.running) > 0 }, mail, other),
		"stand still: found %d and %d", len(mail.fetcher.strays.found), len(other.fetcher.strays.found))
}

func TestTwoSuspectsWhoseRepliesWereLostRun(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	for _, r := range []*rig{mail, other} {
		q := r.queues[0]
		_, _ = r.keys.TakeQuarantined("x", []string{q}).Do(r.ctx, r.direct) // loads the script
		r.do("RPUSH", r.keys.Quarantine(q), suspect(q, 2))
		r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: r.keys.Quarantine(q) + "\r\n$" + fmt.Sprint(len(r.keys.Working(q, r.life.Identity))), Nth: 1, Do: faultproxy.Close()})
	}
	ran := pumpAll(rigPatience, func() bool { return len(mail.running)+len(other.running) > 0 }, mail, other)
	t.Logf("alone lists %d %d; found %d %d; mail log:\n%s\nother:\n%s", len(mail.list(mail.keys.QuarantineRun(mail.life.Identity))), len(other.list(other.keys.QuarantineRun(other.life.Identity))), len(mail.fetcher.strays.found), len(other.fetcher.strays.found), mail.log.String(), other.log.String())
	require.True(t, ran, "stand still")
}

func TestALostSuspectDoesNotWaitForOthersJobs(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	other.push("other", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(other.running) == 1 }, mail, other)) // a job of hours
	mail.do("LPUSH", mail.keys.QuarantineRun(mail.life.Identity), suspect("mail", 2))
	mail.do("HSET", mail.keys.Record(mail.life.Identity), "alone", "mail")
	pumpAll(5*time.Second, func() bool { return mail.fetcher.strays.foundAlone() }, mail, other)
	other.push("other", 1)
	mail.push("mail", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(other.running) == 2 || len(mail.running) == 1 }, mail, other),
		"DrainFor is 2s; nothing is taken in this process for 6s and for as long as the other's job goes on")
}

func TestAFencedFetcherLeavesTheProcessToOthers(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	require.True(t, pumpAll(rigPatience, func() bool { return mail.fetcher.waits.open() == 1 && other.fetcher.waits.open() == 1 }, mail, other))
	mail.do("RPUSH", mail.keys.Quarantine("mail"), suspect("mail", 2))
	// mail's heart does not get through (its own connection); its jobs' connection does. So it lapses.
	mail.do("ZADD", mail.keys.Alive(), "1", mail.life.Identity)
	mail.fetcher.Look(Pulse{})
	for until := time.Now().Add(rigPatience); !mail.fetcher.fenced && time.Now().Before(until); {
		stepAll(mail, other)
	}
	require.True(t, mail.fetcher.fenced)
	other.push("other", 1)
	for until := time.Now().Add(rigPatience); len(other.running) == 0 && time.Now().Before(until); {
		if time.Now().UnixMilli()%300 < 20 {
			other.beat()
		}
		stepAll(mail, other)
	}
	require.NotEmpty(t, other.running, "a healthy capsule takes nothing as long as another one's beats fail")
}

func TestASuspectOfUnknownQueueStaysWhereItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.do("LPUSH", r.keys.QuarantineRun(r.life.Identity), suspect("mail", 2))
	r.do("HSET", r.keys.Record(r.life.Identity), "alone", "mail")
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: "HGET", Do: faultproxy.Close()})
	pumpAll(5*time.Second, func() bool { return len(r.fetcher.strays.found) == 1 }, r)
	t.Logf("found %d", len(r.fetcher.strays.found))
	r.fetcher.Quiet()
	pumpAll(time.Second, func() bool { return r.fetcher.Settled() }, r)
	require.Empty(t, r.list(r.keys.Quarantine("")), "a list nobody reads")
}

func TestOrdinaryJobsHaveTheirTurnBetweenSuspects(t *testing.T) {
	t.Parallel()
	r := newRig(t, clients["go-redis"], 2, "mail")
	r.fetcher.cfg.DrainFor = 10 * time.Second
	r.push("mail", 500)
	for range 60 {
		r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	}
	order := ""
	started := map[*Held]time.Time{}
	pumpAll(10*time.Second, func() bool {
		var left []*Held
		for _, h := range r.running {
			if started[h].IsZero() {
				started[h] = time.Now()
				if h.alone {
					order += "S"
				} else {
					order += "."
				}
			}
			if time.Since(started[h]) > 20*time.Millisecond {
				r.fetcher.End(h, job.Done())
			} else {
				left = append(left, h)
			}
		}
		r.running = left
		return strings.Count(order, "S") == 60
	}, r)
	t.Log(order)
	first, last := strings.Index(order, "S"), strings.LastIndex(order, "S")
	require.Contains(t, order[first:last], ".", "no ordinary job is started as long as there is a suspect")
}

func TestNotTheWholeFleetServesSuspects(t *testing.T) {
	t.Parallel()
	addr, prefix := drivertest.Redis(t).Addr(), drivertest.Prefix(t)
	var rs []*rig
	for range 4 {
		r := newRigOn(t, clients["go-redis"], addr, prefix, 2, "mail")
		r.fetcher.cfg.DrainFor = 10 * time.Second
		rs = append(rs, r)
	}
	r := rs[0]
	r.push("mail", 2000)
	for range 200 {
		r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	}
	started := map[*Held]time.Time{}
	most := 0
	lastOrdinary, allAt := time.Now(), time.Time{}
	begin := time.Now()
	pumpAll(12*time.Second, func() bool {
		alone := 0
		for _, r := range rs {
			var left []*Held
			for _, h := range r.running {
				if started[h].IsZero() {
					started[h] = time.Now()
					if !h.alone {
						lastOrdinary = time.Now()
					}
				}
				if h.alone {
					alone++
				}
				limit := 30 * time.Millisecond
				if h.alone {
					limit = 300 * time.Millisecond
				}
				if time.Since(started[h]) > limit {
					r.fetcher.End(h, job.Done())
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
	t.Logf("suspects at once in a fleet of 4: %d (all at %v); the last ordinary job was started at %v of 12s; suspects left %d, ordinary left %d", most, allAt.Sub(begin), lastOrdinary.Sub(begin),
		len(r.list(r.keys.Quarantine("mail"))), len(r.list(r.keys.Queue("mail"))))
	require.Less(t, most, 4, "the whole fleet serves suspects")
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
	r.fetcher.cfg.DrainFor = 2 * time.Second
	r.push("mail", 1)
	require.True(t, pumpAll(rigPatience, func() bool { return len(r.running) == 1 }, r))
	r.do("SET", r.keys.Draining("mail"), "x") // or a user who may not ZREMRANGEBYSCORE
	r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
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

func TestARefusedTakeOfASuspectIsNoSpin(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	r := newRigOn(t, clients["go-redis"], server.Addr(), "b", 1, "mail")
	r.fetcher.cfg.DrainFor = 2 * time.Second
	r.do("RPUSH", r.keys.Quarantine("mail"), suspect("mail", 2))
	r.push("mail", 1)
	_, sha := r.keys.TakeQuarantined("x", []string{"mail"}).Call.Script.Text(true)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: sha, Do: faultproxy.Fail("NOPERM this user may not")})
	r.pump("the job", func() bool { return len(r.running) == 1 })
	r.end(done)
	r.pump("the wait", func() bool { return r.fetcher.waits.open() == 1 })
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

func TestNothingRunsBesideALostSuspect(t *testing.T) {
	t.Parallel()
	mail, other := capsules(t, clients["go-redis"], 2*time.Second)
	mail.do("RPUSH", mail.keys.Quarantine("mail"), suspect("mail", 2))
	_, _ = mail.keys.TakeQuarantined("x", []string{"mail"}).Do(mail.ctx, mail.direct) // loads the script
	_, sha := mail.keys.TakeQuarantined("x", []string{"mail"}).Call.Script.Text(true)
	mail.proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: sha, Nth: 1, Do: faultproxy.Close()})
	require.True(t, pumpAll(rigPatience, func() bool { return len(mail.list(mail.keys.QuarantineRun(mail.life.Identity))) == 1 }, mail, other))
	other.push("other", 1)
	beside := pumpAll(3*time.Second, func() bool {
		return len(other.running) == 1 && len(mail.list(mail.keys.QuarantineRun(mail.life.Identity))) == 1
	}, mail, other)
	t.Logf("mail running %d; log %s", len(mail.running), mail.log.String())
	require.False(t, beside, "the other's job runs while the suspect lies in the alone list: if it kills the process, the suspect is buried unstarted")
}
