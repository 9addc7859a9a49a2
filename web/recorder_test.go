package web

import (
	"encoding/json"
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
	require.Equal(t, "mail", s.Queues[0].Name)
	require.InDelta(t, 3, *s.Queues[0].Size[0], 0)
	require.InDelta(t, 4, *s.Queues[0].Latency[1], 0)
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
