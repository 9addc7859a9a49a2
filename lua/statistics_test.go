package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The names and bounds are Sidekiq 8.1's: lib/sidekiq/metrics/tracking.rb and shared.rb, as read on
// 2026-11-20. No Debian release has a Sidekiq with these metrics to compare them with.
func TestStatisticsHaveSidekiqsNames(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		at                      time.Time
		minute, ten, runs, wait string
	}{
		{time.Date(2025, 2, 14, 8, 43, 59, 0, time.UTC), "j|250214|8:43", "j|250214|8:4", "h|Mail::Send-14-8-43", "belay:waits|Mail::Send-14-8-43"},
		{time.Date(2025, 2, 4, 9, 3, 0, 0, berlin), "j|250204|8:03", "j|250204|8:0", "h|Mail::Send-4-8-3", "belay:waits|Mail::Send-4-8-3"},
		{time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), "j|261231|0:00", "j|261231|0:0", "h|Mail::Send-31-0-0", "belay:waits|Mail::Send-31-0-0"},
		{time.Date(2026, 1, 1, 0, 5, 0, 0, berlin), "j|251231|23:05", "j|251231|23:0", "h|Mail::Send-31-23-5", "belay:waits|Mail::Send-31-23-5"},
	} {
		for prefix, before := range map[string]string{"": "", "app": "app:"} {
			k := NewKeys(prefix)
			require.Equal(t, before+c.minute, k.ClassMinute(c.at))
			require.Equal(t, before+c.ten, k.ClassTen(c.at))
			require.Equal(t, before+c.runs, k.RunHistogram("Mail::Send", c.at))
			require.Equal(t, before+c.wait, k.WaitHistogram("Mail::Send", c.at))
		}
	}
	var bounds []int
	for _, bound := range HistogramBounds {
		bounds = append(bounds, int(bound.Milliseconds()))
	}
	require.Equal(t, []int{
		20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500, 3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000,
	}, bounds)
	require.Len(t, Histogram{}, 26)
}

func TestAddFiguresWritesWhatSidekiqReads(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 2, 14, 8, 43, 59, 0, time.UTC)
	figures := ClassFigures{Class: "A", Processed: 3, Failed: 1, Time: 1520 * time.Millisecond}
	figures.Runs[0], figures.Runs[11] = 1, 1
	var words [][]string
	for _, call := range NewKeys("").AddFigures(&figures, at) {
		words = append(words, call.Args)
	}
	require.Equal(t, [][]string{
		{"HINCRBY", "j|250214|8:43", "A|p", "3"}, {"HINCRBY", "j|250214|8:43", "A|f", "1"}, {"HINCRBY", "j|250214|8:43", "A|ms", "1520"},
		{"EXPIRE", "j|250214|8:43", "28800"},
		{"HINCRBY", "j|250214|8:4", "A|p", "3"}, {"HINCRBY", "j|250214|8:4", "A|f", "1"}, {"HINCRBY", "j|250214|8:4", "A|ms", "1520"},
		{"EXPIRE", "j|250214|8:4", "259200"},
		{"SET", "h|A-14-8-43", "", "NX", "EX", "28800"}, {"BITFIELD", "h|A-14-8-43", "OVERFLOW", "SAT", "INCRBY", "u16", "#0", "1", "INCRBY", "u16", "#11", "1"},
	}, words)
}

func TestHistogramsKeepTheirCounts(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for _, g := range grounds {
		if g.fake {
			continue // it has no BITFIELD; workers then write no statistics
		}
		w := g.world(t)
		even, full := ClassFigures{Class: "even"}, ClassFigures{Class: "full"}
		for i := range even.Runs {
			even.Runs[i], even.Waits[i] = uint64(i), uint64(1000*i)
		}
		full.Runs[0], full.Runs[3], full.Waits[0] = 70_000, 5, 70_000
		for _, figures := range []*ClassFigures{&even, &even, &full, &full} {
			w.addFigures(figures, at)
		}
		runs, waits := w.histograms("even", at, 0)
		for i := range runs {
			require.Equal(w, uint64(2*i), runs[i])
			require.Equal(w, uint64(2000*i), waits[i])
		}
		runs, waits = w.histograms("full", at, 140_010)
		require.Equal(w, uint64(140_000), runs[0], "the counter is full; the rest follows from the number of runs")
		require.Equal(w, uint64(10), runs[3])
		require.Equal(w, uint64(140_000), waits[0])
		runs, waits = w.histograms("none", at, 0)
		require.Zero(w, runs.Count()+waits.Count())
	}
}

func (w *world) addFigures(figures *ClassFigures, at time.Time) {
	w.Helper()
	for _, reply := range w.client.Do(w.Context(), w.keys.AddFigures(figures, at)...) {
		require.NoError(w, reply.Err)
	}
}

func (w *world) histograms(class string, at time.Time, count uint64) (runs, waits Histogram) {
	w.Helper()
	replies := w.client.Do(w.Context(), w.keys.ReadHistograms(class, at)...)
	run, _ := replies[0].Value.(string)
	wait, _ := replies[1].Value.(string)
	return RunsOf(run, count), WaitsOf(wait)
}
