package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/lua"
)

// The end of a run can be written long after its process is dead: it lay in a socket, or in a network. Then the
// job belongs to another process, which runs it or has run it, and nothing is written for it.
func TestLateSettle(t *testing.T) {
	t.Parallel()
	hands := map[string][]string{"success": nil, "failure": {"-fail", "late"}}
	for what, flags := range hands {
		for _, when := range []string{"while it runs again", "when it has run again"} {
			t.Run("of a "+what+" writes nothing "+when, func(t *testing.T) {
				t.Parallel()
				eachClient(t, func(t *testing.T, s *site) { lateSettle(t, s, when == "while it runs again", flags) })
			})
		}
	}
}

func lateSettle(t *testing.T, s *site, during bool, flags []string) {
	goneBook, book := newLedger(t), newLedger(t)
	proxy, gate := faultproxy.New(t, s.server.Addr()), faultproxy.NewGate()
	t.Cleanup(gate.Open)
	// No program could load the script when its caller is gone.
	source, address := s.keys.Settle(lua.Settlement{}).Call.Script.Text(true)
	s.do("SCRIPT", "LOAD", source)
	proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: address, Do: faultproxy.Hold(gate)})
	gone := s.by(proxy.URL()).work(append(fast, "--exec", goneBook.exec("Late", flags...))...)
	jid := s.push("Late", "default", jsonArgs(1, 0))
	goneBook.awaitEnd(jid)
	select {
	case <-gate.Arrived():
	case <-time.After(patience):
		require.FailNow(t, "the run is not settled")
	}
	identity := gone.identities()[0]
	gone.signal(syscall.SIGSTOP)
	gone.kill()

	survivor := s.work(append(fast, "--exec", book.exec("Late", "-for", "1s"))...)
	require.Equal(t, survivor.pid, book.awaitStart(jid, 1).Worker)
	if !during {
		eventually(t, "it to be counted", func() bool { return s.text(s.keys.Processed()) == "1" })
	}
	gate.Open()
	// The verdict on a batch is kept with the record of its process: the first job in it was not its own any
	// more.
	eventually(t, "the late settle to be judged", func() bool { return s.do("HGET", s.keys.Record(identity), "batch:1") == "1" })
	require.Empty(t, s.set(s.keys.Retry()))

	eventually(t, "nothing to be in hand or to wait", func() bool { return s.waiting() == 0 })
	require.Equal(t, "1", s.text(s.keys.Processed()))
	require.Empty(t, s.text(s.keys.Failed()))
	require.Empty(t, s.set(s.keys.Dead()))
	require.Len(t, book.starts(jid), 1)
}
