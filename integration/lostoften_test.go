package integration

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// atOnce runs tests that mostly wait side by side: testing would run two at once on two cores.
func atOnce(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var running sync.WaitGroup
	for name, test := range tests {
		running.Go(func() { t.Run(name, test) })
	}
	running.Wait()
}

// eachClientAtOnce is eachClient for tests that mostly wait.
func eachClientAtOnce(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	tests := make(map[string]func(t *testing.T))
	for name := range openers {
		tests[name] = func(t *testing.T) {
			s := ordinarySite(t)
			s.client = name
			test(t, s)
		}
	}
	atOnce(t, tests)
}

// losing is how long answers get lost. BELAY_LONG=1 takes a minute.
func losing() time.Duration {
	if os.Getenv("BELAY_LONG") == "1" {
		return time.Minute
	}
	return 6 * time.Second
}

// Three of ten answers to a worker that asks for jobs get lost, at random, while jobs come and go: each runs
// once, no process counts as dead, and none as failed or interrupted.
func TestThreeOfTenAnswersAreLost(t *testing.T) {
	t.Parallel()
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		proxy := faultproxy.New(t, s.server.Addr())
		take := address(s.keys.Take("", nil, 0, 0, 0).Call)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		draw := rand.New(rand.NewPCG(seed, 0))
		proxy.Add(lossesOf(draw, take)...)
		proxy.Add(lossesOf(draw, "BLMOVE")...)
		w := s.by(proxy.URL()).work("-c", "4", "--heartbeat", "200ms", "--ttl", "2s", "--exec", book.exec("Lost"))
		var jids []string
		adopted := func() int { return strings.Count(w.log(), "reclaimed") }
		for began := time.Now(); time.Since(began) < losing() || adopted() == 0; { // on a busy machine few answers come
			require.Less(t, time.Since(began), losing()+patience, "nothing is lost: the test proves nothing")
			jids = append(jids, s.push("Lost", "default", jsonArgs(len(jids), draw.IntN(50))))
			time.Sleep(time.Duration(draw.IntN(100)) * time.Millisecond)
		}
		eventually(t, "every job to be counted", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(len(jids)) })
		t.Logf("%d jobs, %d times some were stranded", len(jids), adopted())
		for _, jid := range jids {
			require.Len(t, book.starts(jid), 1)
		}
		require.Len(t, w.identities(), 1)
		require.False(t, w.says("recovered"))
		require.False(t, w.says("ownership lost"))
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Retry()))
	})
}

// lossesOf are rules that lose three of ten answers to what contains a token.
func lossesOf(draw *rand.Rand, token string) []faultproxy.Rule {
	var rules []faultproxy.Rule
	for n := 1; n < 2000; n++ {
		if draw.IntN(10) < 3 {
			// A rule does not count what one before it has taken.
			rules = append(rules, faultproxy.Rule{On: faultproxy.Replies, Token: token, Nth: n - len(rules), Do: faultproxy.Close()})
		}
	}
	return rules
}
