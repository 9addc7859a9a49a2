package main

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/driver"
)

// quietBench is a bench with a Redis of its own and without peers.
func quietBench(t *testing.T) *bench {
	b, err := openBench(t.Context(), options{}, io.Discard)
	require.NoError(t, err)
	t.Cleanup(b.close)
	return b
}

// eachBelay runs the test with Belay over each client, each over a Redis of its own, at the same time.
func eachBelay(t *testing.T, test func(t *testing.T, b *bench, who contender)) {
	for i, client := range new(options).clients() {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			b := quietBench(t)
			test(t, b, b.belays()[i])
		})
	}
}

// bounded is a test's context with a limit that no run comes near.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestLatencySubject(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"latency", "pingpong"} {
		t.Run(name+": each job is timed once, and from before it was sent", func(t *testing.T) {
			t.Parallel()
			eachBelay(t, func(t *testing.T, b *bench, who contender) {
				done, err := b.do(bounded(t), who, subject.Task{Measure: name, Rate: 50, Seconds: 1, Concurrency: 2}, nil)
				require.NoError(t, err)
				require.Len(t, done.LatenciesUS, 50)
				for _, us := range done.LatenciesUS {
					require.Positive(t, us)
				}
				require.Positive(t, done.Extra["sent_late_us"], "the intended instant lies before the call")
			})
		})
	}
}

func TestHowLateJobsWereSentIsSaidOnlyWhereItIsKnown(t *testing.T) {
	latency := report.NewLatency([]float64{1000})
	require.Equal(t, "p50 1.00 ms, p99 1.00 ms, sent 12.0 µs late", saidLatency(latency, map[string]float64{"sent_late_us": 12}))
	require.Equal(t, "p50 1.00 ms, p99 1.00 ms", saidLatency(latency, nil))
}

func TestScheduleSubject(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]subject.Task{
		"schedule": {Rate: 50, Seconds: 1}, "burst": {Jobs: 500},
	} {
		t.Run(name+": no job starts before it is due", func(t *testing.T) {
			t.Parallel()
			eachBelay(t, func(t *testing.T, b *bench, who contender) {
				task.Measure, task.Concurrency = name, 5
				done, err := b.do(bounded(t), who, task, nil)
				require.NoError(t, err)
				require.Len(t, done.LatenciesUS, max(task.Jobs, measure.Count(task)))
				for _, us := range done.LatenciesUS {
					require.GreaterOrEqual(t, us, 0.0)
				}
			})
		})
	}
}

func TestFleetSubject(t *testing.T) {
	t.Parallel()
	t.Run("each worker is a process of its own to Redis", func(t *testing.T) {
		eachBelay(t, func(t *testing.T, b *bench, who contender) {
			const size = 5
			var processes any
			var u usage
			done, err := b.do(bounded(t), who, subject.Task{Measure: "fleet", Concurrency: size}, func(e subject.Event) (err error) {
				if e.Event == subject.Pushed {
					processes = b.look.Do(t.Context(), driver.Command("ZCARD", "belay:alive"))[0].Value
					u, err = b.usage(t.Context())
				}
				return err
			})
			require.NoError(t, err)
			require.Equal(t, int64(size), processes)
			require.GreaterOrEqual(t, u.connections, 3.0*size, "each has connections of its own: one that waits, and several that do not")
			require.Contains(t, done.Extra, "fleet_cpu_percent")
		})
	})
}

func TestRTT(t *testing.T) {
	t.Parallel()
	t.Run("is measured through the proxy, and reported beside what is drained through it", func(t *testing.T) {
		b := quietBench(t)
		b.client, b.jobs, b.repeat = "go-redis", 500, 1
		r, err := b.measure(bounded(t), rttMeasure)
		require.NoError(t, err)
		require.Len(t, r.Rows, 2)
		bound := r.Rows[1]
		require.Equal(t, report.Floor, bound.Kind)
		require.Positive(t, r.Rows[0].Median)
		require.LessOrEqual(t, bound.Median, defaultConcurrency/farAway.Seconds(), "no round trip is shorter than the delay")
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	t.Run("a server alone and a node of a Cluster are compared in the same round", func(t *testing.T) {
		ratio := comparedRow(t, clusterMeasure, ratioToServer)
		require.Equal(t, "a node of a Cluster", ratio.Case)
		require.Positive(t, ratio.Median)
	})
}

func TestBatches(t *testing.T) {
	t.Parallel()
	t.Run("plain jobs and members of a batch are compared in the same round", func(t *testing.T) {
		require.Equal(t, "members", comparedRow(t, batchesMeasure, moreThanPlain).Case)
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("jobs with and without a limit are compared in the same round", func(t *testing.T) {
		b := quietBench(t)
		b.jobs = 500
		r := &report.Result{}
		turns := b.limitedDrains(r, b.belays()[0])
		for _, turn := range append(turns, b.occupancyTurn(r, b.belays()[0], b.redis.url)) {
			_, err := turn.run(bounded(t))
			require.NoError(t, err, turn.what)
		}
		found := map[string]int{}
		for _, row := range r.Rows {
			found[row.Metric]++
		}
		require.Equal(t, map[string]int{"jobs/s": len(turns) + 1, "redis run": len(turns), ofUnlimited: 3, moreThanPlain: 3, occupancy: 1}, found)
	})
	t.Run("a key that comes late is timed, and no run is refused", func(t *testing.T) {
		eachBelay(t, func(t *testing.T, b *bench, who contender) {
			events := map[string]int{}
			task := subject.Task{Measure: "starve", Jobs: 300, Keys: 3, Limit: 2, Concurrency: 6, Millis: 5, Seconds: 1}
			done, err := b.do(bounded(t), who, task, func(e subject.Event) error {
				events[e.Event]++
				return nil
			})
			require.NoError(t, err)
			require.Len(t, done.LatenciesUS, 3)
			require.Zero(t, done.Extra["refused"])
			require.Positive(t, done.Extra["runs"])
			require.Equal(t, 1, events[subject.Holding], "Redis is looked at before the worker stops")
		})
	})
}

// comparedRow returns the row of a measure, of 2,000 jobs of one client, that compares its cases by a metric.
func comparedRow(t *testing.T, m measurement, metric string) report.Row {
	t.Helper()
	b := quietBench(t)
	b.client, b.jobs, b.repeat = "go-redis", 2000, 1
	r, err := b.measure(bounded(t), m)
	require.NoError(t, err)
	row := slices.IndexFunc(r.Rows, func(row report.Row) bool { return row.Metric == metric })
	require.NotEqual(t, -1, row)
	return r.Rows[row]
}
