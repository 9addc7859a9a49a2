package launcher_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// slowBeat is a heartbeat that long round trips come close to.
const slowBeat = 500 * time.Millisecond

// slowWorker starts a worker of another queue over a slow link.
func (r *rig) slowWorker(roundTrip time.Duration, rate int) *worker {
	cfg := r.config()
	cfg.Client = drivertest.Slow{Client: r.client, RoundTrip: roundTrip, Rate: rate}
	cfg.Beat, cfg.TTL = slowBeat, 4*slowBeat
	l := r.build(cfg)
	l.Handle("Any", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
	return r.start(l)
}

// large are payloads of so many bytes each.
func large(count, bytes int) []string {
	payloads := make([]string, count)
	for i := range payloads {
		payloads[i] = job.Draft{Class: "Any", Queue: "elsewhere", ArgsJSON: `["` + strings.Repeat("x", bytes) + `"]`, CreatedAt: time.Now()}.Encode()
	}
	return payloads
}

// corpse is a process that has died with these jobs in hand.
func (r *rig) corpse(payloads ...string) {
	r.t.Helper()
	const identity = "corpse:1:abc"
	_, err := r.keys.Register(identity, lua.Record{Queues: []string{"elsewhere"}, Beat: slowBeat, TTL: 4 * slowBeat, Concurrency: 25}).Do(r.t.Context(), r.client)
	require.NoError(r.t, err)
	r.do("ZADD", r.keys.Alive(), "XX", "1", identity)
	for _, payload := range payloads {
		r.do("LPUSH", r.keys.Working("elsewhere", identity), payload)
	}
}

// back waits until so many jobs wait in the queue that no worker takes from.
func (r *rig) back(count int) {
	r.t.Helper()
	r.eventually("all jobs to be in their queue", func() bool { return r.do("LLEN", r.keys.Queue("elsewhere")) == int64(count) })
}

// A round trip may be as long as a heartbeat: the worker lives, sees who has died, and brings the jobs back.
func TestJobsOfADeadProcessComeBackOverLongRoundTrips(t *testing.T) {
	t.Parallel()
	for _, trip := range []time.Duration{150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, r *rig) {
				r.corpse(large(5, 100)...)
				w := r.slowWorker(trip, 0)
				r.back(5)
				require.Equal(t, 1, strings.Count(r.log.String(), "working"), "it lived")
				identity := w.Identity()
				r.do("ZADD", r.keys.Schedule(), "1", large(1, 100)[0])
				r.back(6)
				require.Equal(t, identity, w.Identity(), "it still lives")
			})
		})
	}
}

// What takes longer than a heartbeat to arrive arrives in parts.
func TestLargeJobsComeBackAndArePromotedOverASlowLink(t *testing.T) {
	t.Parallel()
	const rate = 2 << 20
	t.Run("recovered", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			r.corpse(large(12, 200_000)...)
			r.slowWorker(time.Millisecond, rate)
			r.back(12)
		})
	})
	t.Run("promoted", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, r *rig) {
			for i, payload := range large(12, 200_000) {
				r.do("ZADD", r.keys.Schedule(), strconv.Itoa(1+i), payload)
			}
			r.slowWorker(time.Millisecond, rate)
			r.back(12)
		})
	})
}

// The log says what does not come and that less is asked for, once, instead of that Redis is away.
func TestASlowLinkIsNamedAsOne(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	r.corpse(large(1, 700_000)...)
	r.slowWorker(time.Millisecond, 256<<10)
	r.back(1)
	log := r.log.String()
	require.Equal(t, 1, strings.Count(log, `"duty":"janitor"`), log)
	require.Contains(t, log, "timed out after")
	require.NotContains(t, log, `"call":"janitor"`, "it is no outage")
}

// A slowHeart is a client whose first lane, which is the heart's, is on a slow link.
type slowHeart struct {
	driver.Client
	roundTrip     time.Duration
	lanes, failed *atomic.Int32
}

func (h slowHeart) Lane(conns int) (driver.Client, error) {
	lane, err := h.Client.Lane(conns)
	if h.lanes.Add(1) > 1 {
		return lane, err
	}
	return failing{drivertest.Slow{Client: lane, RoundTrip: h.roundTrip}, h.failed}, err
}

// A failing client counts the calls that fail.
type failing struct {
	driver.Client
	failed *atomic.Int32
}

func (f failing) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	replies := f.Client.Do(ctx, calls...)
	if replies[0].Err != nil {
		f.failed.Add(1)
	}
	return replies
}

// A registration that needed time has learned how slow the link is: the first beat is given that time, and
// does not lose its connection. The clock is that of a bubble, so that no call takes longer than its round trip.
func TestAHeartKnowsWhatItsRegistrationHasLearned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, client: belaytest.New(t).Client().Driver()}
		var lanes, failed atomic.Int32
		cfg := r.config()
		cfg.Client = slowHeart{r.client, 700 * time.Millisecond, &lanes, &failed}
		cfg.Beat, cfg.TTL = slowBeat, 4*slowBeat
		l := r.build(cfg)
		l.Handle("Any", func(context.Context, *job.Job) error { return nil }, launcher.Class{})
		w := r.start(l)
		r.eventually("its registration", func() bool { return w.Identity() != "" })
		score := func() any { return r.do("ZSCORE", r.keys.Alive(), w.Identity()) }
		registered, before := score(), failed.Load()
		require.Positive(t, before, "it was not slow enough")
		r.eventually("a beat", func() bool { return score() != registered })
		require.Equal(t, before, failed.Load(), "a beat was given less time than its registration had needed")
	})
}
