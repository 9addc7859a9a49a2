package integration

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// silences are ways in which Redis does not even refuse: nothing but a deadline ends a call. Each answers the
// site as a worker is to reach it, and how to begin and end the silence.
var silences = map[string]func(t *testing.T, s *site) (seen *site, begin, end func()){
	"frozen": func(_ *testing.T, s *site) (*site, func(), func()) { return s, s.server.Stop, s.server.Cont },
	"behind a black hole": func(t *testing.T, s *site) (*site, func(), func()) {
		proxy := faultproxy.New(t, s.server.Addr())
		swallow := faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Blackhole()}
		return s.by(proxy.URL()), func() { proxy.Add(swallow) }, proxy.Clear
	},
}

// A stop waits no longer for a silent Redis than for one that answers, whether or not handlers heed their end.
// What could not be requeued runs again: nothing is lost by it, and nothing counts as failed.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup // they mostly wait
	for name, silence := range silences {
		for client, flags := range map[string][]string{"go-redis": nil, "rueidis": {"-deaf"}} {
			running.Go(func() {
				t.Run(name+"/"+client, func(t *testing.T) {
					s := ordinarySite(t)
					s.client = client
					seen, begin, end := silence(t, s)
					stopsInSilence(t, s, seen, flags, begin, end)
				})
			})
		}
	}
	running.Wait()
}

func stopsInSilence(t *testing.T, s, seen *site, flags []string, begin, end func()) {
	t.Helper()
	const timeout = 500 * time.Millisecond
	book, next := newLedger(t), newLedger(t)
	var jids []string
	for n := range 10 {
		jids = append(jids, s.push("Endless", "default", jsonArgs(n, 600_000)))
	}
	// Beats as by default: it is their deadlines that a stop could wait for. One processor is idle.
	p := seen.work("-c", "11", "--shutdown-timeout", timeout.String(), "--exec", book.exec("Endless", flags...))
	for _, jid := range jids {
		book.awaitStart(jid, 1)
	}
	begin()
	askedAt := time.Now()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.wait(), p.log())
	took := time.Since(askedAt) - timeout
	end()
	t.Logf("gone %v after its timeout", took.Round(time.Millisecond))
	require.Less(t, took, stopped)
	require.Contains(t, p.log(), "deregistration failed")
	requireHandsGone(t, book)

	s.work("-c", "10", "--exec", next.exec("Endless", "-for", "1ms"))
	for _, jid := range jids {
		next.awaitEnd(jid)
	}
	eventually(t, "all to be counted", func() bool { return s.text(s.keys.Processed()) == "10" })
	require.Len(t, next.starts(""), len(jids))
	require.Empty(t, s.text(s.keys.Failed()))
	require.Empty(t, s.set(s.keys.Retry()))
}
