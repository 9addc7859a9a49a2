package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A worker is frozen at the very moment at which it is given a job, until another has recovered and done it.
// When it wakes up, the answer that gives it the job is the first thing that it reads. It does not start what
// is not its own any more.
func TestAZombieStartsNothingThatItWasGiven(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T))
	for name := range openers {
		tests["by take, "+name] = func(t *testing.T) {
			s := ordinarySite(t)
			s.client = name
			givenToAZombie(t, s, address(s.keys.Take("", nil, 0, 0, 0).Call))
		}
		tests["by a wait, "+name] = func(t *testing.T) {
			s := ordinarySite(t)
			s.client = name
			givenToAZombie(t, s, "BLMOVE")
		}
	}
	atOnce(t, tests)
}

func givenToAZombie(t *testing.T, s *site, giving string) {
	zombieBook, book, enough := newLedger(t), newLedger(t), newLeave(t)
	proxy := faultproxy.New(t, s.server.Addr())
	zombie := s.by(proxy.URL()).work(append(fast, "-c", "1", "--exec", zombieBook.exec("Any"),
		"--exec", zombieBook.exec("First", "-until", enough.path))...)
	// A server that does not know the scripts yet would be asked twice.
	zombieBook.awaitEnd(s.push("Any", "default", jsonArgs(0, 0)))
	eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
	first := s.push("First", "default", jsonArgs(1, 0))
	zombieBook.awaitStart(first, 1)
	frozen := make(chan struct{})
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: giving, Nth: 1, Do: faultproxy.Before(func() {
		faultproxy.Freeze(t, zombie.pid)()
		close(frozen)
	})})
	t.Cleanup(func() { _ = syscall.Kill(zombie.pid, syscall.SIGCONT) })
	if giving == "BLMOVE" {
		waits := proxy.Count("BLMOVE")
		enough.give()
		eventually(t, "the idle worker to wait", func() bool { return proxy.Count("BLMOVE") > waits })
	}
	given := s.push("Any", "default", jsonArgs(2, 0))
	enough.give() // what follows it is there by then
	receive(t, "the worker to be given a job", frozen)
	require.Equal(t, int64(1), s.do("LLEN", s.keys.Working("default", zombie.identities()[0])), "nothing but it is in hand")

	other := s.work(append(fast, "-c", "1", "--exec", book.exec("Any"))...)
	book.awaitEnd(given)
	eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "3" })
	waitTerm(t, other)
	// It does not learn of its death at once: it must conclude it from its own clock.
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: address(s.keys.Heartbeat("", 0).Call), Nth: 1, Do: faultproxy.Delay(500 * time.Millisecond)})
	zombie.signal(syscall.SIGCONT)
	zombie.awaitLog("re-registered with a new identity")
	last := s.push("Any", "default", jsonArgs(3, 0))
	zombieBook.awaitEnd(last)
	require.Empty(t, zombieBook.starts(given), "it started what another had done")
	require.Len(t, book.starts(given), 1)
	eventually(t, "the last one to be counted", func() bool { return s.text(s.keys.Processed()) == "4" })
	require.Empty(t, s.text(s.keys.Failed()))
}

// The end of a run comes too late: its worker was frozen, and another has recovered the job, which runs or has
// run there. However the late run ended, nothing is written for it: no counter, no retry, no death.
func TestTheEndOfALostRunIsWrittenNowhere(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T))
	for _, late := range []struct {
		name, client, retry string
		flags               []string
		running             bool
	}{
		{"done, while it runs again", "go-redis", "true", nil, true},
		{"failed, while it runs again", "rueidis", "true", []string{"-fail", "late"}, true},
		{"failed, when it was done", "go-redis", "true", []string{"-fail", "late"}, false},
		{"failed for good, while it runs again", "go-redis", "0", []string{"-fail", "late"}, true},
		{"failed for good, when it was done", "rueidis", "0", []string{"-fail", "late"}, false},
	} {
		tests[late.name] = func(t *testing.T) {
			s, zombieBook, book := ordinarySite(t), newLedger(t), newLedger(t)
			enoughOfTheFirst, enough := newLeave(t), newLeave(t)
			s.client = late.client
			zombie := s.work(append(fast, "-c", "1", "--exec", zombieBook.exec("Late", append(late.flags, "-until", enoughOfTheFirst.path)...))...)
			jid := s.pushWith(late.retry, "Late", jsonArgs(1, 0))
			zombieBook.awaitStart(jid, 1)
			zombie.signal(syscall.SIGSTOP)
			t.Cleanup(func() { _ = syscall.Kill(zombie.pid, syscall.SIGCONT) })
			again := []string{"-for", "1ms"}
			if late.running {
				again = append(again, "-until", enough.path)
			}
			s.work(append(fast, "-c", "1", "--exec", book.exec("Late", again...))...)
			book.awaitStart(jid, 1)
			enoughOfTheFirst.give()
			zombieBook.awaitEnd(jid) // hands are not frozen with their worker
			before := ""
			if !late.running {
				before = "1"
				eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == before })
			}
			zombie.signal(syscall.SIGCONT)
			zombie.awaitLog("ownership lost")
			require.Equal(t, before, s.text(s.keys.Processed()))
			enough.give()
			book.awaitEnd(jid)
			eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
			require.Empty(t, s.text(s.keys.Failed()))
			require.Empty(t, s.set(s.keys.Retry()))
			require.Empty(t, s.set(s.keys.Dead()))
			require.Equal(t, 2, len(book.starts(jid))+len(zombieBook.starts(jid)))
		}
	}
	atOnce(t, tests)
}

// pushWith stores a job with this value of retry as Ruby would, and answers its jid.
func (s *site) pushWith(retry, class, args string) string {
	s.t.Helper()
	jid := newJID()
	s.do("SADD", s.keys.Queues(), "default")
	s.do("LPUSH", s.keys.Queue("default"), withRetry(rubyPayload(class, "default", args, jid), retry))
	return jid
}

func withRetry(payload, retry string) string {
	return strings.Replace(payload, `"retry":true`, `"retry":`+retry, 1)
}
