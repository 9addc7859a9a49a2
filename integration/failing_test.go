package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// Jobs fail just while Redis cannot be reached, or while it hears and its answers get lost: each failure is
// kept until it can be stored, and is stored and counted once, as a retry or as a death.
func TestAFailureDuringAnOutageIsStoredOnce(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T))
	for name, rule := range map[string]faultproxy.Rule{
		"unreceived": {On: faultproxy.Requests, Do: faultproxy.Blackhole()},
		"refused":    {On: faultproxy.Requests, Do: faultproxy.Fail("READONLY You can't write against a read only replica.")},
		"unanswered": {On: faultproxy.Replies, Do: faultproxy.Close()},
	} {
		for client := range openers {
			tests[name+", "+client] = func(t *testing.T) {
				s, book := ordinarySite(t), newLedger(t)
				s.client = client
				proxy := faultproxy.New(t, s.server.Addr())
				w := s.by(proxy.URL()).work(append(fast, "-c", "3", "--exec", book.exec("Fails", "-fail", "boom"), "--exec", book.exec("Ends"))...)
				fails, dies, ends := s.pushWith("true", "Fails", jsonArgs(1, 1000)), s.pushWith("0", "Fails", jsonArgs(2, 1000)), s.push("Ends", "default", jsonArgs(3, 1000))
				for _, jid := range []string{fails, dies, ends} {
					book.awaitStart(jid, 1)
				}
				proxy.Add(rule)
				for _, jid := range []string{fails, dies, ends} {
					book.awaitEnd(jid)
				}
				time.Sleep(time.Second) // in which their ends are sent, and sent again
				proxy.Clear()
				eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "3" })
				require.Equal(t, "2", s.text(s.keys.Failed()))
				for set, jid := range map[string]string{s.keys.Retry(): fails, s.keys.Dead(): dies} {
					entries := s.set(set)
					require.Len(t, entries, 1, set)
					entry, err := job.Parse(entries[0])
					require.NoError(t, err)
					require.Equal(t, jid, entry.JID())
					count, _ := entry.RetryCount()
					require.Zero(t, count)
					require.Equal(t, 1, strings.Count(entries[0], "boom"))
				}
				require.Empty(t, s.list(s.keys.Working("default", w.identities()[0])))
				require.Len(t, book.starts(""), 3)
				require.Len(t, w.identities(), 1)
				require.False(t, w.says("ownership lost"))
			}
		}
	}
	atOnce(t, tests)
}
