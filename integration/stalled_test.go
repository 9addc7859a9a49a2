package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Redis stands still for longer than any call waits for it, while a worker with one processor works off a
// queue. What it was asked meanwhile it does when it goes on, though no client waits for the answer any more. A
// client that asks again by itself asks for several jobs where it can run one; here, nothing is left in hand
// that does not run.
func TestAStalledRedisStrandsNothing(t *testing.T) {
	t.Parallel()
	const (
		jobs  = 100
		stall = 13 * time.Second // two timeouts of a call and a TTL
	)
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		book := newLedger(t)
		for n := range jobs {
			s.push("Any", "default", jsonArgs(n, 20))
		}
		w := s.work("-c", "1", "--exec", book.exec("Any"))
		eventually(t, "some to be done", func() bool { return len(book.ends("")) >= 10 })
		s.server.Stop()
		time.Sleep(stall)
		s.server.Cont()
		back, most := time.Now(), int64(0)
		working := s.keys.Working("default", w.identities()[0])
		eventually(t, "all to be counted", func() bool {
			inHand, _ := s.do("LLEN", working).(int64)
			most = max(most, inHand)
			return s.text(s.keys.Processed()) == "100"
		})
		t.Logf("at most %d in hand; done %v after Redis was back", most, time.Since(back))
		require.LessOrEqual(t, most, int64(2), "one that runs, and one whose reply was lost")
		require.Zero(t, s.do("LLEN", working))
		require.Len(t, book.starts(""), jobs, "each once")
		resumes := time.Duration(0)
		for _, start := range book.starts("") {
			if start.At.After(back) {
				resumes = start.At.Sub(back)
				break
			}
		}
		require.Less(t, resumes, resumed)
		require.Len(t, w.identities(), 1)
		require.False(t, w.says("ownership lost"))
		require.Empty(t, s.text(s.keys.Failed()))
	})
}
