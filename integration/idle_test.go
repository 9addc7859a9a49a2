package integration

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// twentyQueues are names, and the flags to work them all.
func twentyQueues() (names, flags []string) {
	for n := range 20 {
		name := fmt.Sprintf("q%02d", n)
		names, flags = append(names, name), append(flags, "-q", name)
	}
	return names, flags
}

func TestIdle(t *testing.T) {
	t.Parallel()
	for title, count := range map[string]int{"sixteen": lua.MaxWaits, "twenty": 20} {
		t.Run("on "+title+" queues sends under one command a second per queue", func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, s *site) {
				_, flags := twentyQueues()
				book, proxy := newLedger(t), faultproxy.New(t, s.server.Addr())
				s.by(proxy.URL()).work(append(flags[:2*count], "--exec", book.exec("Any"))...)
				eventually(t, "the queues to be waited on", func() bool { return proxy.Count("BLMOVE") >= lua.MaxWaits })
				awaitLook(t, proxy)
				traffic := watchTraffic(s, proxy)
				time.Sleep(10 * time.Second) // the span that is measured
				traffic.requireIdle(t, count)
			})
		})
	}
	t.Run("with one processor on twenty queues starts a job on any of them within half a second", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, s *site) {
			names, flags := twentyQueues()
			book := newLedger(t)
			s.work(append(flags, "-c", "1", "--exec", book.exec("Any"))...)
			starts := func(name string) time.Duration {
				pushedAt := time.Now()
				jid := s.push("Any", name, jsonArgs(1, 0))
				defer book.awaitEnd(jid)
				return book.awaitStart(jid, 1).At.Sub(pushedAt)
			}
			slowest := time.Duration(0)
			for _, name := range names {
				// Slow may be a wait, or a machine that did something else in its middle. A wait is so every
				// time.
				took := starts(name)
				for again := 0; took >= promptStart && again < 9; again++ {
					t.Logf("%s: started after %v", name, took)
					took = starts(name)
				}
				slowest = max(slowest, took)
			}
			t.Logf("slowest start %v", slowest)
			require.Less(t, slowest, promptStart)
		})
	})
	t.Run("beside paused queues that are full neither runs their jobs nor spins", func(t *testing.T) {
		t.Parallel()
		eachClient(t, idleBesidePaused)
	})
}

// promptStart is the promise: within this time of its push an idle worker starts a job.
const promptStart = 500 * time.Millisecond

// Two other workers have the leases. How many heartbeats pass is counted, not timed. They are a second apart, because
// one whose reply took an eighth of that is followed by a script, and a call that took too long by a new connection.
// That may be a machine that did something else: one calm span of several shows what a worker sends.
func TestAnIdleWorkerThatStandsBySendsHeartbeatsAndWaits(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, s *site) {
		book, proxy := newLedger(t), faultproxy.New(t, s.server.Addr())
		flags := []string{"--heartbeat", "1s", "--ttl", "6s", "--exec", book.exec("Any")}
		for range 2 {
			s.work(flags...)
		}
		leased := func() bool {
			return s.do("EXISTS", s.keys.Poller(), s.keys.Sweeper(), s.keys.Watcher(), s.keys.Deputy()) == int64(4) &&
				s.text(s.keys.Watcher()) != s.text(s.keys.Deputy())
		}
		eventually(t, "all leases to be held", leased)
		var scripts atomic.Int64
		proxy.Add(faultproxy.Rule{
			On: faultproxy.Requests, Token: address(s.keys.Heartbeat("", 0).Call), Do: faultproxy.After(func() { scripts.Add(1) }),
		})
		prolong, _ := s.keys.Prolong("", 0, time.Time{}, "")
		beats := func() int { return int(scripts.Load()) + proxy.Count("ZADD") }
		s.by(proxy.URL()).work(flags...)
		awaitLook(t, proxy)
		eventually(t, "it to be idle and announced", func() bool {
			return proxy.Count("BLMOVE") > 0 && s.do("SCARD", s.keys.Processes()) == int64(3) && beats() > 5
		})
		const span, spans = 16, 5
		measure := func() (byScript, others int) {
			before, from, fromScripts := proxy.Counts(), beats(), int(scripts.Load())
			eventually(t, "heartbeats", func() bool { return beats() >= from+span })
			byScript = int(scripts.Load()) - fromScripts
			others = -byScript - (proxy.Count("ZADD")-before["ZADD"])*len(prolong)
			var counts []string
			for name, count := range proxy.Counts() {
				if count -= before[name]; count > 0 && name != "BLMOVE" {
					others += count
					counts = append(counts, fmt.Sprintf("%s %d", name, count))
				}
			}
			t.Logf("%d heartbeats: %s", span, strings.Join(counts, ", "))
			return byScript, others
		}
		// A reading of its lists, which is two commands, an announcement, and what renews that, which is two; and as
		// many again on a machine that needs several times as long.
		const mostOthers = 8
		byScript, others := measure()
		for again := 1; again < spans && (byScript >= span/4 || others > mostOthers); again++ {
			byScript, others = measure()
		}
		require.Less(t, byScript, span/4, "most are no script, in one of %d spans at least", spans)
		require.LessOrEqual(t, others, mostOthers, "in one of %d spans at least", spans)
	})
}

// awaitLook waits until a worker's look at Redis is over, which it takes once, at its start. The log does not show it
// for every user, because what cannot be seen is not logged. A worker sends PING twice: before it asks for its
// permissions, and at the end of the look.
func awaitLook(t *testing.T, proxy *faultproxy.Proxy) {
	t.Helper()
	eventually(t, "the look at the start to be over", func() bool { return proxy.Count("PING") >= 2 })
}

func idleBesidePaused(t *testing.T, s *site) {
	book, proxy := newLedger(t), faultproxy.New(t, s.server.Addr())
	s.do("SADD", s.keys.Paused(), "rest1", "rest2")
	held := s.push("Any", "rest1", jsonArgs(1, 0))
	s.push("Any", "rest1", jsonArgs(2, 0))
	s.push("Any", "rest2", jsonArgs(3, 0))
	p := s.by(proxy.URL()).work("-q", "rest1", "-q", "rest2", "-q", "open", "--exec", book.exec("Any"))
	first := s.push("Any", "open", jsonArgs(4, 0))
	book.awaitEnd(first)
	eventually(t, "the open queue alone to be waited on", func() bool { return proxy.Count("BLMOVE") > 0 })
	awaitLook(t, proxy)

	const span = 5 * time.Second
	traffic, used := watchTraffic(s, proxy), cpuTime(t, p.pid)
	time.Sleep(span) // the span that is measured
	used = cpuTime(t, p.pid) - used
	t.Logf("CPU time %v in %v", used, span)
	require.Less(t, used, span/50, "2 %% of a core")
	traffic.requireIdle(t, 3)
	require.Len(t, book.starts(""), 1, "a paused queue's job ran")
	require.Len(t, s.list(s.keys.Queue("rest1")), 2)

	s.do("SREM", s.keys.Paused(), "rest1", "rest2")
	book.awaitEnd(held)
	eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "4" })
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.wait(), p.log())
}

// traffic is what a worker sends within a span.
type traffic struct {
	proxy  *faultproxy.Proxy
	before map[string]int
	since  time.Time
	takes  atomic.Int64
}

func watchTraffic(s *site, proxy *faultproxy.Proxy) *traffic {
	eventually(s.t, "the first sample of the queues: the next one comes a minute later", func() bool { return s.do("ZCARD", s.keys.Samples()) != int64(0) })
	w := &traffic{proxy: proxy, before: proxy.Counts(), since: time.Now()}
	proxy.Add(faultproxy.Rule{
		On: faultproxy.Requests, Token: address(s.keys.Take("", nil, 0, 0, 0).Call), Do: faultproxy.After(func() { w.takes.Add(1) }),
	})
	return w
}

// withBeats are the commands that go with beats, duties and the poller, and not with waiting for jobs: every
// script but take, which an idle worker sends only for queues beyond lua.MaxWaits, and what is read beside them.
var withBeats = map[string]bool{"EVALSHA": true, "SMISMEMBER": true, "ZREVRANGE": true, "ZRANGE": true, "EXISTS": true}

// requireIdle holds the promise: under one command per second per queue, beats and the poller apart.
func (w *traffic) requireIdle(t *testing.T, queues int) {
	t.Helper()
	span, sent, takes := time.Since(w.since), 0, int(w.takes.Load())
	var counts []string
	for name, count := range w.proxy.Counts() {
		count -= w.before[name]
		if count > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", name, count))
		}
		if !withBeats[name] {
			sent += count
		}
	}
	t.Logf("in %v: %s, takes %d", span.Round(time.Millisecond), strings.Join(counts, ", "), takes)
	require.Less(t, float64(sent+takes)/span.Seconds()/float64(queues), 1.0)
	if queues <= lua.MaxWaits {
		require.Zero(t, takes, "an idle worker asks for jobs by take")
	}
}

// cpuTime is the CPU time that a process has used. Its clock is exact where /proc counts hundredths of a
// second, twice; its number is the kernel's formula (posix-timers.h: the inverted process id, and 2 for the
// scheduler's clock).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const schedulerClock = 2
	var used unix.Timespec
	require.NoError(t, unix.ClockGettime(^int32(pid)<<3|schedulerClock, &used))
	return time.Duration(used.Nano())
}
