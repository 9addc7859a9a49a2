package integration

import (
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

// A kill -9 is found by the missing subscription, long before the session lapses. In the long mode each of a
// hundred jobs of killed workers is recovered within three seconds.
func TestAKilledWorkerIsFoundByItsAbsence(t *testing.T) {
	t.Parallel()
	s, book := ordinarySite(t), newLedger(t)
	kills, most := 5, 20
	if takesItsTime() {
		kills, most = 100, 100
	}
	var fleet []*process
	for range 3 {
		fleet = append(fleet, s.work("-c", "100", "-q", "default", "--exec", book.exec("HardWorker")))
	}
	s.awaitPresent(fleet...)
	found, worst := 0, time.Duration(0)
	for n := 0; n < most && found < kills; n++ {
		queue := "q" + strconv.Itoa(n)
		victim := s.work("-q", queue, "--exec", book.exec("HardWorker"))
		identity := victim.identities()[0]
		jid := s.push("HardWorker", queue, jsonArgs(1, 60_000))
		book.awaitStart(jid, 1)
		eventually(t, "its subscription", func() bool { return s.present(identity) })
		time.Sleep(1500 * time.Millisecond) // a look
		killedAt := s.now()
		victim.kill()
		var diedAt time.Time
		eventually(t, "the verdict", func() (dead bool) { diedAt, dead = s.diedAt(identity); return dead })
		eventually(t, "the recovery", func() bool { return len(s.list(s.keys.Queue(queue))) == 1 })
		took := diedAt.Sub(killedAt)
		byAbsence := declaredAbsent(fleet, identity)
		t.Logf("kill %d: dead after %v, by absence: %v", n, took, byAbsence)
		if byAbsence {
			found++
			worst = max(worst, took)
		}
	}
	t.Logf("%d found by their absence, the last after %v", found, worst)
	require.GreaterOrEqual(t, found, kills)
	if takesItsTime() {
		require.LessOrEqual(t, worst, 3*time.Second)
	}
}

// Whatever cuts living processes off from their subscriptions, or stops them, declares none of them dead.
func TestNoLivingProcessIsDeclaredDeadByItsAbsence(t *testing.T) {
	t.Parallel()
	kills, cuts := 20, 25
	if takesItsTime() {
		kills, cuts = 200, 300
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
	paused := func(s *site, what string) {
		s.do("CLIENT", "PAUSE", "4000", what)
		time.Sleep(4500 * time.Millisecond)
	}
	for name, torment := range map[string]func(s *site, workers []*process){
		"all connections killed again and again": func(s *site, _ []*process) {
			for range kills {
				s.do("CLIENT", "KILL", "TYPE", "pubsub")
				s.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				time.Sleep(time.Duration(100+rand.IntN(300)) * time.Millisecond)
			}
		},
		"subscriptions cut every 200 ms": func(s *site, _ []*process) {
			for range cuts {
				s.do("CLIENT", "KILL", "TYPE", "pubsub")
				time.Sleep(200 * time.Millisecond)
			}
		},
		"Redis restarted": func(s *site, _ []*process) {
			for range 3 {
				s.server.Kill()
				s.server.Restart(s.t)
				time.Sleep(3 * time.Second)
			}
		},
		"Redis stopped": func(s *site, _ []*process) {
			s.server.Stop()
			time.Sleep(4 * time.Second)
			s.server.Cont()
		},
		"one process stopped": func(_ *site, workers []*process) { stopped(workers[0]) },
		"the fleet stopped":   func(_ *site, workers []*process) { stopped(workers...) },
		"writes paused":       func(s *site, _ []*process) { paused(s, "WRITE") },
		"all clients paused":  func(s *site, _ []*process) { paused(s, "ALL") },
		"writes paused, and cut off": func(s *site, _ []*process) {
			s.do("CLIENT", "PAUSE", "4000", "WRITE")
			s.do("CLIENT", "KILL", "TYPE", "pubsub")
			time.Sleep(4500 * time.Millisecond)
		},
		"no room for connections": func(s *site, _ []*process) {
			conn, err := net.Dial("tcp", s.server.Addr()) // another one would be refused
			require.NoError(s.t, err)
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "CONFIG SET maxclients 10\r\nCLIENT KILL TYPE pubsub\r\n")
			time.Sleep(5 * time.Second)
			_, _ = io.WriteString(conn, "CONFIG SET maxclients 10000\r\n")
			_, err = io.ReadFull(conn, make([]byte, len("+OK\r\n:3\r\n+OK\r\n")))
			require.NoError(s.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, book := newSite(t, audited(t)), newLedger(t)
			var workers []*process
			var jids []string
			for n := range 3 {
				queue := "q" + strconv.Itoa(n)
				workers = append(workers, s.work("-q", queue, "--exec", book.exec("Long")))
				jids = append(jids, s.push("Long", queue, jsonArgs(n, 10_000)))
				book.awaitStart(jids[n], 1)
			}
			s.awaitPresent(workers...)
			torment(s, workers)
			for _, jid := range jids {
				book.awaitEnd(jid)
			}
			eventually(t, "all to be settled", func() bool { return s.text(s.keys.Processed()) == "3" })
			time.Sleep(3 * time.Second) // a verdict would come after 2.5 s
			require.Empty(t, s.set(s.keys.Tombstones()))
			for _, jid := range jids {
				require.Len(t, book.starts(jid), 1, "run again without a cause")
			}
		})
	}
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
