package integration

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// wakings is how often a worker is frozen. BELAY_LONG=1 goes on for minutes.
func wakings() int {
	if os.Getenv("BELAY_LONG") == "1" {
		return 120
	}
	return 6
}

// A worker with hundreds of jobs in hand is frozen for about as long as it takes until it is declared dead,
// again and again. Half of the times it wakes up at random, just before or after; and half of the times in the
// very middle of it: once it is declared dead, or when the first or the second page of its jobs has been moved,
// and the rest has not. Every job is done; what has moved ends nowhere, and what has not is ended by its old owner or recovered, not both.
func TestAWorkerWakesWhileItsJobsAreBroughtBack(t *testing.T) {
	t.Parallel()
	const inHand = 600 // more than two pages
	s, book := ordinarySite(t, oracle.MaxInterruptions(programCrashes)), newLedger(t)
	path := buildWorker(t, "./testdata/worker")
	proxy := faultproxy.New(t, s.server.Addr())
	start := func(url, ttl string) *process {
		p := s.launch(path, "-redis", url, "-prefix", s.prefix, "-c", strconv.Itoa(inHand), "-ttl", ttl, book.path)
		p.awaitLog(`"working"`)
		return p
	}
	sleeper := start(s.url, "1s")
	// The proxy is at this process' pace: replies to the janitor's recoveries must not come too late for
	// it when other tests keep that busy.
	janitor := start(proxy.URL(), "10s")
	t.Cleanup(func() { _ = syscall.Kill(sleeper.pid, syscall.SIGCONT) })

	pushed := 0
	fill := func() { // so that both have all that they can hold, and more waits
		for s.do("LLEN", s.keys.Queue("default")).(int64) < inHand {
			words := []string{"LPUSH", s.keys.Queue("default")}
			for range inHand {
				words = append(words, rubyPayload("Any", "default", jsonArgs(pushed, 1500+rand.IntN(3000)), newJID()))
				pushed++
			}
			s.do(words...)
		}
	}
	pages := 0 // rounds in which the janitor has surely moved some
	for round := range wakings() {
		hundreds := func() bool {
			names := sleeper.identities()
			return s.do("LLEN", s.keys.Working("default", names[len(names)-1])).(int64) > 512
		}
		ready := func() {
			eventually(t, "the worker to have hundreds in hand", func() bool {
				fill() // the other takes from it, too
				return hundreds()
			})
		}
		ready()
		wake := func() { _ = syscall.Kill(sleeper.pid, syscall.SIGCONT) }
		var reached atomic.Bool
		nth := 1 + round/2%3 // the first reply says that it is declared dead; each after it, that a page has moved
		if round%2 == 1 {
			recovers := address(s.keys.Recover("", nil, nil, time.Time{}).Call)
			proxy.Add(faultproxy.Rule{On: faultproxy.Replies, Token: recovers, Nth: nth, Do: faultproxy.Before(func() {
				reached.Store(true)
				wake()
				time.Sleep(20 * time.Millisecond) // in which the woken one does what it can
			})})
		}
		// Some may have ended since, and there would be fewer pages to wait for.
		for sleeper.signal(syscall.SIGSTOP); !hundreds(); sleeper.signal(syscall.SIGSTOP) {
			wake()
			ready()
		}
		if round%2 == 1 {
			eventually(t, "its recovery to get there", reached.Load)
			if nth > 1 {
				pages++
			}
		} else {
			time.Sleep(time.Duration(1200+rand.IntN(1000)) * time.Millisecond) // a TTL and two looks, more or less
			wake()
		}
		proxy.Clear()
		eventually(t, "it to live", func() bool {
			names := sleeper.identities()
			return s.lives(names[len(names)-1])
		})
	}
	eventually(t, "all to be done", func() bool { return s.text(s.keys.Processed()) == strconv.Itoa(pushed) })
	ends := make(map[string]bool)
	for _, end := range book.ends("") {
		ends[end.JID] = true
	}
	require.Len(t, ends, pushed)
	recoveries := func() int { return strings.Count(janitor.log(), "recovered") }
	// One that wakes up before a page has moved may end all of its jobs itself.
	eventually(t, "the janitor to log each", func() bool { return recoveries() >= pages })
	t.Logf("%d jobs, %d recoveries, %d ends that were lost", pushed, recoveries(), strings.Count(sleeper.log(), "ownership lost"))
	require.Empty(t, s.text(s.keys.Failed()))
	require.Empty(t, s.set(s.keys.Retry()))
	require.Empty(t, s.set(s.keys.Dead()))
}
