package web

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A dashboard that has just been started shows what workers have sampled.
func TestThePlotOfADaySurvivesARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	sample := func(ago time.Duration, processed, failed int64, size int64) {
		queues := []lua.QueueSample{{Name: "mail", Size: size, Latency: time.Duration(size) * time.Second}}
		added, err := r.keys.AddSample(lua.Sample{Processed: processed, Failed: failed, Queues: queues}).Do(t.Context(), r.client)
		require.NoError(t, err)
		require.True(t, added)
		page, err := r.keys.Page(r.keys.Samples(), lua.OrderHighest, 0, 1, lua.MaxBytes).Do(t.Context(), r.client)
		require.NoError(t, err)
		at := strconv.FormatInt(time.Now().Add(-ago).Unix(), 10)
		r.do("ZREM", r.keys.Samples(), page.Entries[0].Bytes)
		r.do("ZADD", r.keys.Samples(), at, at+page.Entries[0].Bytes[len("1700000000.000000"):])
	}
	sample(25*time.Hour, 1, 1, 9)
	sample(6*time.Hour, 1000, 10, 3)
	sample(6*time.Hour-100*time.Second, 1500, 20, 4)
	var s series
	require.NoError(t, json.Unmarshal([]byte(r.get("/series.json?range=hours").body), &s))
	require.Len(t, s.At, 3, "two samples of the day, and what the dashboard sees now")
	require.InDelta(t, 100, s.At[1]-s.At[0], 2)
	require.Nil(t, s.Processed[0])
	require.InDelta(t, 5, *s.Processed[1], 0.2)
	require.InDelta(t, 0.1, *s.Failed[1], 0.01)
	require.Equal(t, []string{"mail", "mail"}, []string{s.Sizes[0].Name, s.Latencies[0].Name})
	require.InDelta(t, 3, *s.Sizes[0].Values[0], 0)
	require.InDelta(t, 4, *s.Latencies[0].Values[1], 0)
	require.Nil(t, s.Processed[2], "the counters were set to zero meanwhile")
}

func TestADashboardFillsTheGapsOfTheSamples(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_700_000_000, 0)
	samples := func(minutes ...int) (samples []inspect.Sample) {
		for _, minute := range minutes {
			samples = append(samples, inspect.Sample{At: begin.Add(time.Duration(minute) * time.Minute), Processed: int64(minute)})
		}
		return samples
	}
	require.Equal(t, samples(1, 2, 3), filled(samples(1, 2, 3), nil))
	require.Equal(t, samples(1, 2, 3), filled(nil, samples(1, 2, 3)), "no worker of Belay")
	require.Equal(t, samples(0, 3, 4, 8, 10), filled(samples(3, 4, 8), samples(0, 2, 5, 7, 10)), "each minute counts once")
	require.NotNil(t, plot(nil).At, "the script reads a list")
}

// The lines of a plot are of queues that have jobs now, and a line of one that was drained ends at 0.
func TestAPlotHasTheQueuesThatHaveJobsNow(t *testing.T) {
	t.Parallel()
	var r ring
	r.every, r.most = recentEvery, recentMost
	begin := time.Unix(1_700_000_000, 0)
	// Twelve large queues are drained, while fourteen others fill. One job of a small queue waits for hours.
	for n := range 3 {
		status := inspect.Status{At: begin.Add(time.Duration(n) * recentEvery)}
		for queue := range 26 {
			q := inspect.Queue{Name: fmt.Sprintf("q%02d", queue)}
			if (queue < 12) == (n == 0) {
				q.Size, q.Latency.Duration = int64(1000/(n+1)-queue), time.Second
			}
			status.Queues = append(status.Queues, q)
		}
		status.Queues = append(status.Queues, inspect.Queue{Name: "slow", Size: 1, Latency: inspect.Seconds{Duration: 3 * time.Hour}})
		r.add(status)
	}
	s := plot(r.samples)
	values := func(lines []line) map[string][]float64 {
		values := make(map[string][]float64)
		for _, line := range lines {
			for _, value := range line.Values {
				if value == nil {
					value = new(-1.0)
				}
				values[line.Name] = append(values[line.Name], *value)
			}
		}
		return values
	}
	require.Equal(t, map[string][]float64{
		"q00": {1000, 0, 0}, "q01": {999, 0, 0}, "q02": {998, 0, 0}, "q12": {-1, 488, 321}, "q13": {-1, 487, 320}, "q14": {-1, 486, 319},
	}, values(s.Sizes), "how many they had beside twelve larger ones is not known")
	require.Equal(t, []float64{10800, 10800, 10800}, values(s.Latencies)["slow"])
	for _, lines := range [][]line{s.Sizes, s.Latencies} {
		require.Len(t, lines, maxPlotted)
		inks := make(map[int]bool)
		for _, line := range lines {
			require.Less(t, line.Ink, maxPlotted)
			inks[line.Ink] = true
		}
		require.Len(t, inks, maxPlotted)
	}
	for _, size := range s.Sizes {
		for _, latency := range s.Latencies {
			if size.Name == latency.Name {
				require.Equal(t, size.Ink, latency.Ink, size.Name)
			}
		}
	}
}
