package fetch

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
)

// senders returns how many goroutines of this process send pipelines.
func senders() int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Keyspace).send")
}

// Not parallel, because it counts goroutines.
func TestSendersStayUntilTheLoopIsClosed(t *testing.T) {
	before, r := senders(), (*rig)(nil)
	t.Cleanup(func() { // after the rig's own, which closes the loop
		require.NoError(t, r.loop.Close(), "once more")
		require.Eventually(t, func() bool { return senders() == before }, rigPatience, time.Millisecond)
	})
	r = newRig(t, clients["go-redis"], 4*maxInFlight, "mail")
	for range 20 {
		r.push("mail", 1)
		r.pump("a job", func() bool { return len(r.running) == 1 })
		r.end(done)
	}
	require.Positive(t, r.k.senders)
	require.Less(t, r.k.senders, maxInFlight, "never so many at once")

	r.push("mail", 4*maxInFlight)
	r.pump("all jobs", func() bool { return len(r.running) == 4*maxInFlight && r.k.inFlight == 0 })
	gate := faultproxy.NewGate()
	t.Cleanup(gate.Open)
	r.proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: r.shaOfSettle(), Do: faultproxy.Hold(gate)})
	for flight := range maxInFlight {
		for _, run := range r.running[:4] {
			r.finish(run, job.Done())
		}
		r.running = r.running[4:]
		r.pump("one more in flight", func() bool { return r.k.inFlight == flight+1 })
	}
	require.Equal(t, maxInFlight, r.k.senders)
	gate.Open()
	r.settled()
}
