package integration

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// boots is how many workers are started and stopped. BELAY_LONG=1 takes two hundred.
func boots() int {
	if os.Getenv("BELAY_LONG") == "1" {
		return 200
	}
	return 6
}

// No process is taken for dead because it has only just started: worker after worker starts, takes jobs as soon
// as it can, runs for as long as it takes to declare a process without heartbeats dead, and is stopped, while
// two others look for dead processes twenty times a second.
func TestBeginnersAreNotTakenForDead(t *testing.T) {
	t.Parallel()
	// A busy machine may keep a process from running for seconds, which must not look like its death.
	const ttl = 4 * time.Second
	s, book := ordinarySite(t), newLedger(t)
	// The oracle holds besides that no process takes a job before it has registered.
	eager := []string{"--heartbeat", "50ms", "--ttl", ttl.String(), "--janitor", "50ms"}
	var janitors []*process
	for _, client := range []string{"go-redis", "rueidis"} {
		s.client = client
		janitors = append(janitors, s.work(append(eager, "-q", "other", "-c", "1", "--exec", "Any=true")...))
	}
	for n := range 500 {
		s.push("Any", "default", jsonArgs(n, 100))
	}
	flags := append(eager, "-c", "5", "--shutdown-timeout", "10s", "--exec", book.exec("Any"))
	for n := range boots() {
		s.client = []string{"go-redis", "rueidis"}[n%2]
		if len(s.list(s.keys.Queue("default"))) < 100 {
			for n := range 400 {
				s.push("Any", "default", jsonArgs(n, 100))
			}
		}
		before := len(book.starts(""))
		w := s.work(flags...)
		eventually(t, "it to take jobs", func() bool { return len(book.starts("")) > before })
		time.Sleep(ttl + 200*time.Millisecond) // a TTL and two looks
		w.signal(syscall.SIGTERM)
		require.Zero(t, w.wait(), w.log())
		require.False(t, w.says("ownership lost"))
		require.Len(t, w.identities(), 1)
	}
	for _, janitor := range janitors {
		require.False(t, janitor.says("recovered"), janitor.log())
	}
	starts := make(map[string]int)
	for _, start := range book.starts("") {
		starts[start.JID]++
		require.Equal(t, 1, starts[start.JID], "run again without a cause")
	}
}

// A worker takes nothing before its registration is confirmed, whether Redis has received it or not.
func TestNothingIsTakenBeforeTheRegistrationIsConfirmed(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T))
	for name, rule := range map[string]func(token string) faultproxy.Rule{
		"not received": func(token string) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Requests, Token: token, Do: faultproxy.Close()}
		},
		"unanswered": func(token string) faultproxy.Rule {
			return faultproxy.Rule{On: faultproxy.Replies, Token: token, Do: faultproxy.Close()}
		},
	} {
		for client := range openers {
			tests[name+", "+client] = func(t *testing.T) {
				s, book := ordinarySite(t), newLedger(t)
				s.client = client
				jid := s.push("Any", "default", jsonArgs(1, 0))
				proxy := faultproxy.New(t, s.server.Addr())
				register := address(s.keys.Register("", lua.Record{}).Call)
				proxy.Add(rule(register))
				w := s.by(proxy.URL()).start(append(fast, "--exec", book.exec("Any"))...)
				w.awaitLog("redis is away")
				time.Sleep(time.Second) // in which it tries again and again
				require.Len(t, s.list(s.keys.Queue("default")), 1)
				require.Empty(t, book.starts(""))
				require.False(t, w.says(`"working"`), w.log())
				proxy.Clear()
				book.awaitEnd(jid)
				eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
				require.Equal(t, 1, strings.Count(w.log(), `"working"`))
				require.Len(t, book.starts(jid), 1)
			}
		}
	}
	atOnce(t, tests)
}
