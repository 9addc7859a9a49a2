package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A worker is cut off from Redis, and from nothing else, for three TTLs; others recover its jobs and run
// them. It starts nothing after its lease, though it had just been given a job; what it ran it runs on, since
// it cannot know that it is the process that is cut off. When it learns that it was declared dead it cancels
// that run, writes nothing for it, and re-registers with a new identity.
func TestAPartitionedWorkerStartsNothing(t *testing.T) {
	t.Parallel()
	const ttl = time.Second // of the flags fast
	eachClientAtOnce(t, func(t *testing.T, s *site) {
		cutBook, book := newLedger(t), newLedger(t)
		proxy := faultproxy.New(t, s.server.Addr())
		w := s.by(proxy.URL()).work(append(fast, "-c", "3", "--exec", cutBook.exec("Any"))...)
		running := s.push("Any", "default", jsonArgs(1, 600_000))
		cutBook.awaitStart(running, 1)
		eventually(t, "the idle processors to wait", func() bool { return strings.Contains(fmt.Sprint(s.do("INFO", "clients")), "blocked_clients:1") })

		// The job is moved into its hand, and the answer, which is the first that gets lost, arrives nowhere.
		proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Do: faultproxy.HalfOpen()})
		cut := time.Now()
		given := s.push("Any", "default", jsonArgs(2, 0))
		other := s.work(append(fast, "-c", "3", "--exec", book.exec("Any", "-for", "1ms"))...)
		book.awaitEnd(running)
		book.awaitEnd(given)
		time.Sleep(time.Until(cut.Add(3 * ttl)))
		require.Len(t, cutBook.starts(""), 1, "it started something")
		require.Empty(t, cutBook.ends(running))
		require.False(t, w.says("ownership lost"))
		healed := time.Now()
		proxy.Clear()

		w.awaitLog("re-registered with a new identity")
		w.awaitLog("ownership lost")
		eventually(t, "its hand to be gone", func() bool { return len(processesWith(t, cutBook.path)) == 1 }) // the worker itself
		t.Logf("learned of its death %v after it could", time.Since(healed))
		other.signal(syscall.SIGTERM)
		require.Zero(t, other.wait(), other.log())
		cutBook.awaitEnd(s.push("Any", "default", jsonArgs(3, 0)))
		eventually(t, "the three to be counted", func() bool { return s.text(s.keys.Processed()) == "3" })
		require.Empty(t, cutBook.starts(given))
		require.Len(t, book.starts(""), 2)
		require.Empty(t, s.text(s.keys.Failed()))
		require.Empty(t, s.set(s.keys.Retry()))
	})
}
