package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestSamples(t *testing.T) {
	promises(t, map[string]func(w *world){
		"are read from an instant on": func(w *world) {
			samples, err := w.inspector.Samples(w.Context(), time.Time{})
			require.NoError(w, err)
			require.NotNil(w, samples)
			require.Empty(w, samples)
			added := lua.Sample{Processed: 7, Failed: 1, Queues: []lua.QueueSample{{Name: "mail", Size: 3, Latency: time.Second}}}
			_, err = w.keys.AddSample(added).Do(w.Context(), w.driver)
			require.NoError(w, err)
			w.do("ZADD", w.keys.Samples(), "5", `5 {"p":1}`, "6", "of another program")
			samples, err = w.inspector.Samples(w.Context(), time.Time{})
			require.NoError(w, err)
			require.Len(w, samples, 2)
			require.Equal(w, Sample{At: time.Unix(5, 0).UTC(), Processed: 1, Queues: []QueueSample{}}, samples[0])
			samples, err = w.inspector.Samples(w.Context(), time.Now().Add(-time.Hour))
			require.NoError(w, err)
			require.Len(w, samples, 1)
			require.Equal(w, []QueueSample{{"mail", 3, Seconds{time.Second}}}, samples[0].Queues)
			require.Equal(w, []int64{7, 1}, []int64{samples[0].Processed, samples[0].Failed})
		},
		"rates of queues are those of two minutes": func(w *world) {
			w.do("SADD", w.keys.Queues(), "a", "b|p")
			for _, ago := range []time.Duration{0, time.Minute} {
				// The test may begin in one minute and end in the next one, so the minute after it has the same.
				for _, at := range []time.Time{time.Now().Add(-ago), time.Now().Add(time.Minute - ago)} {
					w.do("DEL", w.keys.QueueMinute(at))
					call := w.keys.AddQueueFigures([]lua.QueueFigures{{Queue: "b|p", Processed: 600, Failed: 60}}, at)
					require.NoError(w, w.driver.Do(w.Context(), call)[0].Err)
				}
			}
			status := w.status()
			require.Empty(w, status.Problems)
			require.Zero(w, status.Queues[0].Rate+status.Queues[0].FailedRate)
			seconds := 60 + float64(status.At.Second())
			require.InDelta(w, 1200/seconds, status.Queues[1].Rate, 0.5)
			require.InDelta(w, 120/seconds, status.Queues[1].FailedRate, 0.05)
		},
		"without figures of queues their sizes are read": func(w *world) {
			w.do("SADD", w.keys.Queues(), "a")
			w.do("SET", w.keys.QueueMinute(time.Now()), "x")
			w.do("SET", w.keys.QueueMinute(time.Now().Add(time.Minute)), "x")
			status := w.status()
			require.NoError(w, status.QueuesErr)
			require.Len(w, status.Queues, 1)
			require.Contains(w, status.Problems[0], "the runs of queues: WRONGTYPE")
		},
	})
}

func TestPerSecond(t *testing.T) {
	t.Parallel()
	for want, rate := range map[string]float64{"": 0, "0.02/s": 0.016, "3.4/s": 3.41, "120/s": 120.4} {
		require.Equal(t, want, PerSecond(rate))
	}
}
