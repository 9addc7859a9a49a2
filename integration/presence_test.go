package integration

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// takesItsTime reports whether the tests of presence take their time and judge the promised seconds, which
// needs a machine that does nothing else.
func takesItsTime() bool { return os.Getenv("BELAY_LONG") == "1" }

// absentDeath is what the watcher's log says.
const absentDeath = "process declared dead: its subscription is gone and no heartbeat came"

// declaredAbsent reports whether one of these workers has declared a process dead by its absence.
func declaredAbsent(workers []*process, identity string) bool {
	for _, p := range workers {
		for line := range strings.Lines(p.log()) {
			if strings.Contains(line, absentDeath) && strings.Contains(line, identity) {
				return true
			}
		}
	}
	return false
}

// now is Redis' time.
func (s *site) now() time.Time {
	s.t.Helper()
	parts := texts(s.do("TIME"))
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	require.NoError(s.t, err)
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	require.NoError(s.t, err)
	return time.Unix(seconds, micros*1000)
}

// diedAt returns when a process was declared dead, by Redis' clock; ok is false if it was not.
func (s *site) diedAt(identity string) (at time.Time, ok bool) {
	s.t.Helper()
	text, ok := s.do("ZSCORE", s.keys.Tombstones(), identity).(string)
	millis, _ := strconv.ParseFloat(text, 64)
	return time.UnixMilli(int64(millis)), ok
}

// present reports whether a process has its subscription.
func (s *site) present(identity string) bool {
	s.t.Helper()
	counts, _ := s.do("PUBSUB", "NUMSUB", s.keys.Presence(identity)).([]any)
	return len(counts) == 2 && counts[1] == int64(1)
}

// awaitPresent waits until all these workers have their subscriptions, there is a watcher and a deputy, and
// both have looked for long enough to judge.
func (s *site) awaitPresent(workers ...*process) {
	s.t.Helper()
	for _, p := range workers {
		eventually(s.t, "its subscription", func() bool { names := p.identities(); return s.present(names[len(names)-1]) })
	}
	eventually(s.t, "a watcher and a deputy", func() bool {
		return s.text(s.keys.Watcher()) != "" && s.text(s.keys.Deputy()) != ""
	})
	time.Sleep(4 * time.Second) // what a sight must have seen is not shown anywhere
}

// A kill -9 is found by the missing subscription, long before the session lapses. In the long mode a hundred
// workers are killed, five at a time, and each is declared dead within three seconds.
func TestAKilledWorkerIsFoundByItsAbsence(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	kills, most, together := 5, 20, 1
	if takesItsTime() {
		kills, most, together = 100, 100, 5
	}
	var fleet []*process
	for range 3 {
		fleet = append(fleet, s.work("-c", "100", "-q", "default", "--exec", book.exec("HardWorker")))
	}
	s.awaitPresent(fleet...)
	type victim struct {
		*process
		queue    string
		killedAt time.Time
	}
	found, worst := 0, time.Duration(0)
	for n := 0; n < most && found < kills; n += together {
		var victims []*victim
		for i := range together {
			queue := "q" + strconv.Itoa(n+i)
			victims = append(victims, &victim{process: s.work("-q", queue, "--exec", book.exec("HardWorker")), queue: queue})
			book.awaitStart(s.push("HardWorker", queue, jsonArgs(1, 60_000)), 1)
		}
		for _, v := range victims {
			eventually(t, "its subscription", func() bool { return s.present(v.identities()[0]) })
		}
		time.Sleep(1500 * time.Millisecond) // a look
		for _, v := range victims {
			v.killedAt = s.now()
			v.kill()
		}
		for _, v := range victims {
			identity := v.identities()[0]
			var diedAt time.Time
			eventually(t, "the verdict", func() (dead bool) { diedAt, dead = s.diedAt(identity); return dead })
			eventually(t, "the recovery", func() bool { return len(s.list(s.keys.Queue(v.queue))) == 1 })
			took := diedAt.Sub(v.killedAt)
			byAbsence := declaredAbsent(fleet, identity)
			t.Logf("%s: dead after %v, by absence: %v", v.queue, took, byAbsence)
			if byAbsence {
				found++
				worst = max(worst, took)
			}
		}
	}
	t.Logf("%d found by their absence, the last after %v", found, worst)
	require.GreaterOrEqual(t, found, kills)
	if takesItsTime() {
		require.LessOrEqual(t, worst, 3*time.Second)
	}
}

// A tormented is three workers with a long job each, and what a torment works on.
type tormented struct {
	*site
	workers   []*process
	proxy     *faultproxy.Proxy // the workers' way to Redis
	sentinels *drivertest.Watched
	clock     *wallClock
}

// behindProxy are workers that reach Redis by a proxy.
func behindProxy(t *testing.T) *tormented {
	t.Helper()
	s := ordinarySite(t)
	proxy := faultproxy.New(t, s.server.Addr())
	return &tormented{site: s.by(proxy.URL()), proxy: proxy}
}

// Whatever cuts living processes off from their subscriptions, or stops them, declares none of them dead.
func TestNoLivingProcessIsDeclaredDeadByItsAbsence(t *testing.T) {
	t.Parallel()
	kills, cuts, resets := 20, 25, 20
	if takesItsTime() {
		kills, cuts, resets = 200, 300, 200
	}
	stopped := func(workers ...*process) {
		for _, p := range workers {
			p.signal(syscall.SIGSTOP)
		}
		time.Sleep(3 * time.Second)
		for _, p := range workers {
			p.signal(syscall.SIGCONT)
		}
	}
	paused := func(s *tormented, what string) {
		s.do("CLIENT", "PAUSE", "4000", what)
		time.Sleep(4500 * time.Millisecond)
	}
	// raw sends commands on a connection of its own and waits for their replies, of which want is the end.
	raw := func(s *tormented, commands, want string) {
		conn, err := net.Dial("tcp", s.server.Addr())
		require.NoError(s.t, err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, commands)
		require.NoError(s.t, err)
		var got []byte
		require.NoError(s.t, conn.SetReadDeadline(time.Now().Add(patience)))
		for buffer := make([]byte, 1<<10); !strings.HasSuffix(string(got), want); {
			n, err := conn.Read(buffer)
			require.NoError(s.t, err, "after %q", got)
			got = append(got, buffer[:n]...)
		}
	}
	type torment struct {
		place func(t *testing.T) *tormented // default: a server of its own
		do    func(s *tormented)
		// loses is set if results that were stored last may be lost: then their jobs run again where they ran.
		loses bool
	}
	for name, torment := range map[string]torment{
		"all connections killed again and again": {do: func(s *tormented) {
			for range kills {
				s.do("CLIENT", "KILL", "TYPE", "pubsub")
				s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			}
		}},
		"subscriptions cut every 200 ms": {do: func(s *tormented) {
			for range cuts {
				s.do("CLIENT", "KILL", "TYPE", "pubsub")
				time.Sleep(200 * time.Millisecond)
			}
		}},
		"a proxy resets all connections": {place: behindProxy, do: func(s *tormented) {
			for range resets {
				s.proxy.CloseConns()
				time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			}
		}},
		"a proxy is restarted": {place: behindProxy, do: func(s *tormented) {
			for range 5 {
				s.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()}) // it is down
				s.proxy.CloseConns()
				time.Sleep(time.Second)
				s.proxy.Clear()
				time.Sleep(2500 * time.Millisecond)
			}
		}},
		"Redis restarted": {do: func(s *tormented) {
			for range 3 {
				s.server.Kill()
				s.server.Restart(s.t)
				time.Sleep(3 * time.Second)
			}
		}},
		"Redis restarted, and clients return in the same order": {do: func(s *tormented) {
			for range 3 {
				for _, p := range s.workers {
					p.signal(syscall.SIGSTOP)
				}
				s.server.Kill()
				s.server.Restart(s.t)
				for _, p := range s.workers {
					p.signal(syscall.SIGCONT)
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(3 * time.Second)
			}
		}},
		"Redis stopped": {do: func(s *tormented) {
			s.server.Stop()
			time.Sleep(4 * time.Second)
			s.server.Cont()
		}},
		"a failover by Sentinel": {
			place: func(t *testing.T) *tormented {
				w := newWatchedSite(t)
				return &tormented{site: w.by(w.URL()), sentinels: w.Watched}
			},
			do:    func(s *tormented) { s.site = s.on(s.sentinels.FailOver(s.t)) },
			loses: true,
		},
		"the clock set": {
			place: func(t *testing.T) *tormented {
				clock := startClocked(t)
				return &tormented{site: newSite(t, clock.server), clock: clock}
			},
			do: func(s *tormented) {
				for _, by := range []time.Duration{90 * time.Millisecond, -90 * time.Millisecond, time.Second, -time.Second, 3 * time.Second, -3 * time.Second} {
					s.clock.step(by)
					s.do("CLIENT", "KILL", "TYPE", "pubsub")
					time.Sleep(2 * time.Second)
				}
			},
		},
		"one process stopped": {do: func(s *tormented) { stopped(s.workers[0]) }},
		"the fleet stopped":   {do: func(s *tormented) { stopped(s.workers...) }},
		"writes paused":       {do: func(s *tormented) { paused(s, "WRITE") }},
		"all clients paused":  {do: func(s *tormented) { paused(s, "ALL") }},
		"writes paused, and cut off": {do: func(s *tormented) {
			s.do("CLIENT", "PAUSE", "4000", "WRITE")
			s.do("CLIENT", "KILL", "TYPE", "pubsub")
			time.Sleep(4500 * time.Millisecond)
		}},
		"all clients paused, and cut off": {do: func(s *tormented) {
			raw(s, "MULTI\r\nCLIENT PAUSE 4000 ALL\r\nCLIENT KILL TYPE pubsub\r\nEXEC\r\n", "\r\n*2\r\n+OK\r\n:3\r\n")
			time.Sleep(4500 * time.Millisecond)
		}},
		// A primary holds writes until the replica has all of them. This one never has.
		"writes paused by FAILOVER, and cut off": {do: func(s *tormented) {
			host, port, _ := net.SplitHostPort(s.server.Addr())
			replica := drivertest.Start(s.t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
			eventually(s.t, "a replica", func() bool {
				return strings.Contains(fmt.Sprint(s.do("INFO", "replication")), "state=online")
			})
			replica.Stop()
			defer replica.Cont()
			s.do("PUBLISH", "lacking", "") // the replica lacks this at least, and replicas get it
			require.Equal(s.t, "OK", s.do("FAILOVER", "TIMEOUT", "4000"))
			s.do("CLIENT", "KILL", "TYPE", "pubsub")
			eventually(s.t, "the failover to be given up", func() bool {
				return strings.Contains(fmt.Sprint(s.do("INFO", "replication")), "master_failover_state:no-failover")
			})
		}},
		"no room for connections": {do: func(s *tormented) {
			conn, err := net.Dial("tcp", s.server.Addr()) // another one would be refused
			require.NoError(s.t, err)
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "CONFIG SET maxclients 10\r\nCLIENT KILL TYPE pubsub\r\n")
			time.Sleep(5 * time.Second)
			_, _ = io.WriteString(conn, "CONFIG SET maxclients 10000\r\n")
			_, err = io.ReadFull(conn, make([]byte, len("+OK\r\n:3\r\n+OK\r\n")))
			require.NoError(s.t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *tormented
			if torment.place != nil {
				s = torment.place(t)
			} else {
				s = &tormented{site: ordinarySite(t)}
			}
			book := newLedger(t)
			var jids []string
			for n := range 3 {
				queue := "q" + strconv.Itoa(n)
				s.workers = append(s.workers, s.work("-q", queue, "--exec", book.exec("Long")))
				jids = append(jids, s.push("Long", queue, jsonArgs(n, 10_000)))
				book.awaitStart(jids[n], 1)
			}
			s.awaitPresent(s.workers...)
			torment.do(s)
			for _, jid := range jids {
				book.awaitEnd(jid)
			}
			eventually(t, "all to be settled", func() bool { return s.text(s.keys.Processed()) == "3" })
			time.Sleep(3 * time.Second) // a verdict would come after 2.5 s
			require.Empty(t, s.set(s.keys.Tombstones()))
			for _, p := range s.workers {
				require.Len(t, p.identities(), 1)
			}
			for _, jid := range jids {
				require.True(t, torment.loses || len(book.starts(jid)) == 1, "run again without a cause")
			}
		})
	}
}

// watchedLease is for how long after a heartbeat a worker with default settings and a subscription may start jobs.
const watchedLease = 2200 * time.Millisecond

// A worker whose heartbeats and subscription are reset, and no other one, is declared dead by its absence. When its
// lease is over it starts nothing, not even a job that it was given before, and it cancels what it ran when it
// comes back. All else reaches Redis: a program of --exec that starts reads its cursor there first, so a worker
// without any connection would start none in any case.
func TestAWorkerThatResetsCutOffStartsNothing(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		others := []*process{s.work("-q", "other", "--exec", book.exec("Any")), s.work("-q", "other", "--exec", book.exec("Any"))}
		s.awaitPresent(others...)
		subscriptions := func() (ids []string) {
			for line := range strings.Lines(fmt.Sprint(s.do("CLIENT", "LIST", "TYPE", "pubsub"))) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				ids = append(ids, id)
			}
			return ids
		}
		before := subscriptions()
		proxy := faultproxy.New(t, s.server.Addr())
		w := s.by(proxy.URL()).work("-c", "3", "--exec", book.exec("Any"))
		identity := w.identities()[0]
		running := s.push("Any", "default", jsonArgs(1, 600_000))
		book.awaitStart(running, 1)
		s.awaitPresent(append(others, w)...)
		eventually(t, "the idle processors to wait", func() bool {
			return strings.Contains(fmt.Sprint(s.do("INFO", "clients")), "blocked_clients:3")
		})

		answer := faultproxy.NewGate()
		proxy.Add(
			faultproxy.Rule{On: faultproxy.Replies, Token: "BLMOVE", Do: faultproxy.Hold(answer)},
			faultproxy.Rule{On: faultproxy.Requests, Token: address(s.keys.Heartbeat("", 0).Call), Do: faultproxy.Close()},
			faultproxy.Rule{On: faultproxy.Requests, Token: s.keys.Presence(""), Do: faultproxy.Close()},
		)
		cut := s.now()
		for _, id := range subscriptions() {
			if !slices.Contains(before, id) {
				s.do("CLIENT", "KILL", "ID", id)
			}
		}
		given := s.push("Any", "default", jsonArgs(2, 0))
		receive(t, "the answer of a wait", answer.Arrived())
		eventually(t, "the end of the lease", func() bool {
			expiry, err := strconv.ParseFloat(fmt.Sprint(s.do("ZSCORE", s.keys.Alive(), identity)), 64)
			require.NoError(t, err)
			return s.now().Sub(time.UnixMilli(int64(expiry)).Add(-6*time.Second)) >= watchedLease
		})
		answer.Open()
		var diedAt time.Time
		eventually(t, "the verdict", func() (dead bool) { diedAt, dead = s.diedAt(identity); return dead })
		byAbsence := declaredAbsent(others, identity)
		t.Logf("declared dead %v after the cut, by absence: %v", diedAt.Sub(cut), byAbsence)
		require.True(t, byAbsence || !takesItsTime(), "on a quiet machine the TTL decides nothing here")
		time.Sleep(time.Second) // in this span nothing must happen
		require.Len(t, book.starts(""), 1, "it started something")
		require.False(t, w.says("ownership lost"))
		proxy.Clear()

		w.awaitLog("re-registered with a new identity")
		w.awaitLog("ownership lost")
		book.awaitEnd(given)
		require.Len(t, book.starts(given), 1)
		for _, other := range others {
			require.Len(t, other.identities(), 1)
		}
	})
}

// A worker whose connections stand although it is dead, as after a power cut, is found by its TTL.
func TestAWorkerWhoseConnectionsStandIsFoundByItsTTL(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	victim := s.work("--exec", book.exec("Long"))
	identity := victim.identities()[0]
	jid := s.push("Long", "default", jsonArgs(1, 600_000))
	book.awaitStart(jid, 1)
	others := []*process{s.work("-q", "other", "--exec", book.exec("Any")), s.work("-q", "other", "--exec", book.exec("Any"))}
	s.awaitPresent(append(others, victim)...)
	stoppedAt := s.now()
	victim.signal(syscall.SIGSTOP)
	var diedAt time.Time
	eventually(t, "the verdict", func() (dead bool) { diedAt, dead = s.diedAt(identity); return dead })
	eventually(t, "the recovery", func() bool { return len(s.list(s.keys.Queue("default"))) == 1 })
	t.Logf("declared dead after %v", diedAt.Sub(stoppedAt))
	require.False(t, declaredAbsent(others, identity))
	require.Less(t, diedAt.Sub(stoppedAt), recovery)
	require.Len(t, s.set(s.keys.Tombstones()), 1)
}

// The deputy finds a killed watcher, and nobody else is declared dead. When both are killed, the TTL decides.
func TestAKilledWatcherIsFound(t *testing.T) {
	t.Parallel()
	for name, leases := range map[string]func(k lua.Keys) []string{
		"the watcher": func(k lua.Keys) []string { return []string{k.Watcher()} },
		"both":        func(k lua.Keys) []string { return []string{k.Watcher(), k.Deputy()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, book := newSite(t, audited(t)), newLedger(t)
			var fleet []*process
			for range 4 {
				fleet = append(fleet, s.work("--exec", book.exec("Long")))
			}
			s.awaitPresent(fleet...)
			var victims []string
			for _, lease := range leases(s.keys) {
				victims = append(victims, s.text(lease))
			}
			for _, p := range fleet {
				if slices.Contains(victims, p.identities()[0]) {
					p.kill()
				}
			}
			eventually(t, "the verdicts", func() bool { return len(s.set(s.keys.Tombstones())) >= len(victims) })
			require.ElementsMatch(t, victims, s.set(s.keys.Tombstones()))
			eventually(t, "another watcher and another deputy", func() bool {
				watcher, deputy := s.text(s.keys.Watcher()), s.text(s.keys.Deputy())
				return watcher != "" && deputy != "" && watcher != deputy && !slices.Contains(victims, watcher) && !slices.Contains(victims, deputy)
			})
		})
	}
}
