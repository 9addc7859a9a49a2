package integration

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// skew is how far apart the clocks of Redis and of all other hosts are: what is left when NTP is not
// monitored.
const skew = 10 * time.Minute

// promptly is within what time of being due a job starts. A mistake would be of ten minutes, so a busy machine
// may take its time.
const promptly = 20 * time.Second

// The clock of Redis has always been ten minutes ahead of the workers' and the producers', or behind: "in
// three seconds" is in three seconds, "at" is by Redis' clock, every process counts as alive, and a worker
// that is killed is missed in time.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup // they mostly wait
	for name, by := range map[string]time.Duration{"redis is ahead": skew, "redis is behind": -skew} {
		running.Go(func() {
			t.Run(name, func(t *testing.T) {
				clock := startClocked(t)
				clock.step(by)
				widow := newBereaved(t, clock, "go-redis")
				var routines []*routine
				for _, client := range []string{"go-redis", "rueidis"} {
					routines = append(routines, newRoutine(t, clock, client))
				}
				widow.kill()
				for _, e := range routines {
					e.inThreeSeconds()
					e.onTime()
				}
				widow.recovered()
				for _, e := range routines {
					require.Len(t, e.worker.identities(), 1)
					require.False(t, e.worker.says("ownership lost"))
				}
				widow.settled()
				require.Len(t, widow.survivor.identities(), 1)
			})
		})
	}
	running.Wait()
}

// inThreeSeconds runs a job in three seconds by the clock of its producer.
func (e *routine) inThreeSeconds() {
	e.t.Helper()
	askedAt := time.Now()
	jid := e.later("3s")
	pushed := time.Now()
	began := e.book.awaitStart(jid, 1).At
	e.t.Logf("%s: began %v after it was asked for", e.client, began.Sub(askedAt))
	require.Greater(e.t, began.Sub(askedAt), 3*time.Second, "early")
	require.Less(e.t, began.Sub(pushed), 3*time.Second+promptly)
}
