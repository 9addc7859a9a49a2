package integration

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// quickRecovery is how long a worker with the flags fast may be dead until its jobs run again: two seconds, and ten
// times that for a machine that is busy with other work.
const quickRecovery = 20 * time.Second

// A janitor is killed while it recovers a dead worker's jobs, at every point at which it matters. No process
// waits for it, and nothing of what it had begun is lost or done twice.
func TestAJanitorIsKilledAtItsWork(t *testing.T) {
	t.Parallel()
	const jobs = 6
	tests := make(map[string]func(t *testing.T))
	for name, at := range map[string]func(s *site, victim string, kill func()) faultproxy.Rule{
		"before it claims the dead one": func(s *site, victim string, kill func()) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Requests, Token: s.keys.Claim(victim), Nth: 1, Do: faultproxy.Before(kill)}
		},
		"when it has the claim": func(s *site, victim string, kill func()) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Replies, Token: s.keys.Claim(victim), Nth: 1, Do: faultproxy.Before(kill)}
		},
		"before it moves the jobs": func(s *site, _ string, kill func()) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Requests, Token: address(s.keys.Recover("", nil, nil, time.Time{}).Call), Nth: 1, Do: faultproxy.Before(kill)}
		},
		"when they are moved, without a reply": func(s *site, _ string, kill func()) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Replies, Token: address(s.keys.Recover("", nil, nil, time.Time{}).Call), Nth: 1, Do: faultproxy.Before(kill)}
		},
	} {
		for client := range openers {
			tests[name+", "+client] = func(t *testing.T) {
				s, victimBook, book := ordinarySite(t), newLedger(t), newLedger(t)
				s.client = client
				var jids []string
				for n := range jobs {
					jids = append(jids, s.push("Any", "default", jsonArgs(n, 600_000)))
				}
				victim := s.work(append(fast, "-c", strconv.Itoa(jobs), "--exec", victimBook.exec("Any"))...)
				for _, jid := range jids {
					victimBook.awaitStart(jid, 1)
				}
				proxy := faultproxy.New(t, s.server.Addr())
				janitor := s.by(proxy.URL()).work(append(fast, "-q", "other", "-c", "1", "--exec", "Any=true")...)
				proxy.Add(at(s, victim.identities()[0], faultproxy.Kill(t, janitor.pid)))
				victim.kill()
				eventually(t, "the janitor to be killed", janitor.ended)
				killed := time.Now()
				s.work(append(fast, "-c", strconv.Itoa(jobs), "--exec", book.exec("Any", "-for", "1ms"))...)
				for _, jid := range jids {
					again := book.awaitStart(jid, 1).At.Sub(killed)
					require.Less(t, again, quickRecovery, "it waits for a dead janitor")
				}
				eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(jobs) })
				require.Len(t, book.starts(""), jobs, "each once more")
				require.Empty(t, s.set(s.keys.Dead()))
				require.Empty(t, s.list(s.keys.Quarantine("default")), "one crash was counted twice")
			}
		}
	}
	atOnce(t, tests)
}

// A worker that was frozen comes back between the judgement that it is dead and its execution, which was a
// while on its way. It keeps its name and its jobs.
func TestWhoComesBackBeforeTheJudgementArrivesIsAlive(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		w := s.work(append(fast, "-c", "1", "--exec", book.exec("Any"))...)
		jid := s.push("Any", "default", jsonArgs(1, 5000))
		book.awaitStart(jid, 1)
		identity := w.identities()[0]
		proxy, judged := faultproxy.New(t, s.server.Addr()), make(chan struct{})
		t.Cleanup(func() { _ = syscall.Kill(w.pid, syscall.SIGCONT) })
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: address(s.keys.Recover("", nil, nil, time.Time{}).Call), Nth: 1, Do: faultproxy.Before(func() {
			defer close(judged)
			_ = syscall.Kill(w.pid, syscall.SIGCONT)
			waitFor(func() bool { return s.lives(identity) })
		})})
		// The proxy is at this process' pace: the janitor must not lapse when other tests keep it busy.
		janitor := s.by(proxy.URL()).work("--heartbeat", "200ms", "--ttl", "10s", "-q", "other", "--exec", "Any=true")
		w.signal(syscall.SIGSTOP)
		receive(t, "the judgement", judged)
		book.awaitEnd(jid)
		eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
		require.Len(t, book.starts(jid), 1)
		require.Len(t, w.identities(), 1)
		require.False(t, w.says("ownership lost"))
		require.False(t, janitor.says("recovered the jobs of a dead process"))
		require.Empty(t, s.set(s.keys.Tombstones()))
	})
}

// lives is whether Redis counts an identity among the living.
func (s *site) lives(identity string) bool {
	expiry, _ := s.do("ZSCORE", s.keys.Alive(), identity).(string)
	ms, _ := strconv.ParseFloat(expiry, 64)
	return time.UnixMilli(int64(ms)).After(time.Now())
}

// waitFor is eventually for a goroutine that must not fail the test: what follows will.
func waitFor(condition func() bool) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && !condition(); {
		time.Sleep(time.Millisecond)
	}
}
