package integration

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A process whose beats are not confirmed starts nothing after its lease, whether Redis counts it as alive or
// not, ends none of its running jobs, and recovers no jobs: it may be the process that is cut off.
func TestWithoutABeatNothingIsStartedOrStopped(t *testing.T) {
	t.Parallel()
	// A lease is far longer than it takes to push a job and to start it.
	const beat, ttl = 500 * time.Millisecond, 4 * time.Second
	for name, lost := range map[string]func(token string) faultproxy.Rule{
		"none arrives": func(token string) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Requests, Token: token, Do: faultproxy.Fail("LOADING none of your beats")}
		},
		"none is answered": func(token string) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Replies, Token: token, Do: faultproxy.Close()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ordinarySite(t)
			book, proxy, enough := newLedger(t), faultproxy.New(t, s.server.Addr()), newLeave(t)
			flags := []string{"--heartbeat", beat.String(), "--ttl", ttl.String(), "--exec", book.exec("Any"),
				"--exec", book.exec("Long", "-until", enough.path)}
			// Its job is what a sighted process would bring back.
			victim := s.work(append(flags, "-q", "victims", "-c", "1")...)
			orphan := s.push("Any", "victims", jsonArgs(1, 60_000))
			book.awaitStart(orphan, 1)
			long := s.push("Long", "default", jsonArgs(2, 0))
			w := s.by(proxy.URL()).work(append(flags, "-q", "default", "-q", "victims", "-c", "3")...)
			book.awaitStart(long, 1)

			logged := len(w.log())
			proxy.Add(lost(address(s.keys.Heartbeat("", 0).Call)))
			blind := time.Now()
			// All, and those of them that came when the lease was over.
			pushed, late := []string{s.push("Any", "default", jsonArgs(3, 0))}, []string(nil)
			victim.kill()
			for time.Since(blind) < 2*ttl+beat {
				isLate := time.Since(blind) > ttl
				pushed = append(pushed, s.push("Any", "default", jsonArgs(3, 0)))
				if isLate {
					late = append(late, pushed[len(pushed)-1])
				}
				time.Sleep(beat / 2)
			}
			require.NotEmpty(t, late)
			require.Len(t, book.starts(orphan), 1, "a blind process has judged another")
			require.False(t, w.says("ownership lost"), "a running job was ended")
			said := w.log()[logged:]
			require.Equal(t, 1, strings.Count(said, "redis is away"), said)
			require.NotContains(t, said, "redis is back")
			sight := time.Now()
			proxy.Clear()
			enough.give()

			for _, jid := range pushed {
				book.awaitEnd(jid)
				require.Len(t, book.starts(jid), 1)
			}
			for _, jid := range late {
				require.True(t, book.starts(jid)[0].At.After(sight), "started without a lease")
			}
			require.True(t, book.starts(pushed[0])[0].At.Before(sight), "within its lease it goes on")
			book.awaitEnd(long)
			require.Len(t, book.starts(long), 1)
			require.Len(t, w.identities(), 1)
			book.awaitStart(orphan, 2)
			eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(len(pushed)+1) })
			w.awaitLog("redis is back")
		})
	}
}
