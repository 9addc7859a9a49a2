package integration

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A worker is stopped in the very moment in which it is given a job; the answer gets lost, or it comes
// late. What is in its hand is not forgotten with it: it goes back, or others find it.
func TestWhatALeavingWorkerIsGivenIsNotLost(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(t *testing.T))
	for client := range openers {
		for name, lost := range map[string]bool{"lost": true, "late": false} {
			tests["the answer of take "+name+", "+client] = func(t *testing.T) {
				s := ordinarySite(t)
				s.client = client
				givenToALeaver(t, s, address(s.keys.Take("", nil, 0, 0, 0).Call), lost)
			}
			tests["the answer of a wait "+name+", "+client] = func(t *testing.T) {
				s := ordinarySite(t)
				s.client = client
				givenToALeaver(t, s, "BLMOVE", lost)
			}
		}
	}
	atOnce(t, tests)
}

func givenToALeaver(t *testing.T, s *site, giving string, lost bool) {
	leaverBook, book := newLedger(t), newLedger(t)
	proxy, enough := faultproxy.New(t, s.server.Addr()), newLeave(t)
	leaver := s.by(proxy.URL()).work(append(fast, "-c", "1", "--shutdown-timeout", "0s", "--exec", leaverBook.exec("Any"),
		"--exec", leaverBook.exec("First", "-until", enough.path))...)
	// A server that does not know the scripts yet would be asked twice.
	leaverBook.awaitEnd(s.push("Any", "default", jsonArgs(0, 0)))
	eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
	first := s.push("First", "default", jsonArgs(1, 0))
	leaverBook.awaitStart(first, 1)
	given := make(chan struct{})
	proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: giving, Nth: 1, Do: faultproxy.Before(func() {
		defer close(given)
		_ = syscall.Kill(leaver.pid, syscall.SIGTERM)
		waitFor(func() bool { return leaver.says(`"signal":"SIGTERM"`) })
		if lost {
			proxy.CloseConns()
		}
	})})
	if giving == "BLMOVE" {
		waits := proxy.Count("BLMOVE")
		enough.give()
		eventually(t, "the idle worker to wait", func() bool { return proxy.Count("BLMOVE") > waits })
	}
	jid := s.push("Any", "default", jsonArgs(2, 0))
	enough.give() // what follows it is there by then
	receive(t, "the worker to be given a job", given)
	require.Zero(t, leaver.wait(), leaver.log())
	require.Empty(t, leaverBook.starts(jid))

	s.work(append(fast, "-c", "1", "--exec", book.exec("Any"))...)
	book.awaitEnd(jid)
	eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "3" })
	require.Len(t, book.starts(""), 1)
	require.Empty(t, s.text(s.keys.Failed()))
	require.Empty(t, texts(s.do("KEYS", s.prefix+":belay:working:*")), "left in hand")
}
