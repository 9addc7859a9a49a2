package integration

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// sampled is how long the ordinary run takes points of the sweep.
	sampled = 40 * time.Second
	// troupes is how many plays are on at once. Most of a play is waiting for a death to be noticed.
	troupes = 4
)

// Whatever a process was doing when it was killed, and whether Redis had executed it or not, no job is lost,
// none that had ended runs again, and nothing is left behind. The owner of a play speaks to Redis through a
// proxy that kills it at a point (see point): before a command is passed on, when it has been executed, or when
// its answer has been delivered. Then a healthy worker does the rest.
//
// There are thousands of points. Ordinarily a random sample of them is tried, for less than a minute, in
// which each kind of command comes first once. The environment may say otherwise:
//
//	BELAY_SEED=7                                     that of the sample
//	BELAY_SWEEP=5m                                   as many as fit into that time
//	BELAY_SWEEP=all                                  all of them, in half an hour: give go test a -timeout of an hour
//	BELAY_SWEEP=worker/go-redis/take/3/executed      this one
func TestCrashPoints(t *testing.T) {
	server, dir := recorded(t)
	w := &sweep{t: t, server: server, program: buildWorker(t, "./testdata/sweepworker")}
	t.Cleanup(func() { w.verdict(dir) })
	how := os.Getenv("BELAY_SWEEP")
	if at, ok := pointOf(how); ok {
		w.play(point{play: at.play, client: at.client}) // scripts are loaded, as in the sweep
		w.play(at)
		require.NotZero(t, w.met, "the point was not met: that command was not sent this time")
		return
	}
	end := time.Now().Add(sampled)
	if how == "all" {
		end = time.Now().Add(24 * time.Hour)
	} else if how != "" {
		budget, err := time.ParseDuration(how)
		require.NoError(t, err, "BELAY_SWEEP")
		end = time.Now().Add(budget)
	}
	seed := rand.Uint64()
	if text := os.Getenv("BELAY_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "BELAY_SEED")
	}
	t.Logf("BELAY_SEED=%d", seed)
	all := w.rehearse()
	if t.Failed() {
		return
	}
	order := shuffled(all, rand.New(rand.NewPCG(seed, 0))) //nolint:gosec // chance, no secret
	tried := w.perform(order, end)
	w.tell(order, tried)
	require.Greater(t, w.met, tried/2, "most points were not met: the sample proves little")
}
