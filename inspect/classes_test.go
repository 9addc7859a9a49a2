package inspect

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestClasses(t *testing.T) {
	promises(t, map[string]func(w *world){
		"an empty Redis has none": func(w *world) {
			list := w.classes(ClassWindow{})
			require.Empty(w, list.Classes)
			text, err := json.Marshal(list)
			require.NoError(w, err)
			require.Contains(w, string(text), `"step_seconds":60,"class_count":0,"classes":[],"problems":[]`)
			require.Equal(w, list.At.Truncate(time.Minute).Add(-59*time.Minute), list.From)
		},
		"sums the minutes of the window": func(w *world) {
			now := w.now()
			w.figures(now, lua.ClassFigures{Class: "A", Processed: 3, Failed: 1, Time: 300 * time.Millisecond, Runs: at(4, 2), Waits: at(0, 3)})
			w.figures(now.Add(-5*time.Minute), lua.ClassFigures{Class: "A", Processed: 1, Time: 20 * time.Second, Runs: at(18, 1), Waits: at(12, 1)})
			w.figures(now.Add(-5*time.Minute), lua.ClassFigures{Class: "B::C", Processed: 9, Time: time.Second, Runs: at(25, 9)})
			w.figures(now.Add(-2*time.Hour), lua.ClassFigures{Class: "A", Processed: 100, Time: time.Second, Runs: at(0, 100)})
			list := w.classes(ClassWindow{})
			require.Equal(w, 2, list.ClassCount)
			require.Equal(w, "B::C", list.Classes[0].Name, "the one with the most runs first")
			require.Equal(w, lua.HistogramBounds[24], list.Classes[0].Run.P50.Duration)
			require.Nil(w, list.Classes[0].Wait)
			a := list.Classes[1]
			require.Equal(w, []int64{4, 1, 3, 4}, []int64{a.Runs, a.Failed, a.Run.Count, a.Wait.Count})
			require.Equal(w, 20300*time.Millisecond, a.Time.Duration)
			require.Equal(w, Seconds{20300 * time.Millisecond / 3}, *a.Mean, "of the runs that succeeded")
			require.InDelta(w, 0.091, a.Run.P50.Seconds(), 0.001)
			require.InDelta(w, 30, a.Run.P99.Seconds(), 1)
			require.InDelta(w, 0.0133, a.Wait.P50.Seconds(), 0.001)
			require.Len(w, a.Steps, 60)
			step := func(ago int) ClassStep {
				return a.Steps[59-ago-int(list.At.Truncate(time.Minute).Sub(now.Truncate(time.Minute)).Minutes())]
			}
			require.Equal(w, ClassStep{3, 1, Seconds{300 * time.Millisecond}}, step(0))
			require.Equal(w, ClassStep{1, 0, Seconds{20 * time.Second}}, step(5))

			require.Equal(w, a, w.classes(ClassWindow{Class: "A"}).Classes[0], "alone it is the same")
			require.Equal(w, int64(104), w.classes(ClassWindow{Last: 3 * time.Hour}).Classes[0].Runs)
		},
		"reads tens of minutes in a long window": func(w *world) {
			now := w.now()
			for _, ago := range []time.Duration{0, 10 * time.Hour, 50 * time.Hour} {
				w.figures(now.Add(-ago), lua.ClassFigures{Class: "A", Processed: 2, Failed: 1, Time: time.Second, Runs: at(0, 1)})
			}
			list := w.classes(ClassWindow{Last: 72 * time.Hour})
			require.Equal(w, 10*time.Minute, list.Step.Duration)
			require.Equal(w, []int64{6, 3}, []int64{list.Classes[0].Runs, list.Classes[0].Failed})
			require.Len(w, list.Classes[0].Steps, 72*6)
			require.Nil(w, list.Classes[0].Run, "a bucket of ten minutes has no histogram")
			require.Equal(w, Seconds{time.Second}, *list.Classes[0].Mean)
			require.Equal(w, int64(4), w.classes(ClassWindow{Last: 24 * time.Hour}).Classes[0].Runs)
		},
		"a class without a success has no mean": func(w *world) {
			w.figures(w.now(), lua.ClassFigures{Class: "A", Processed: 2, Failed: 2})
			list := w.classes(ClassWindow{})
			require.Nil(w, list.Classes[0].Mean)
			text, err := json.Marshal(list)
			require.NoError(w, err)
			require.Contains(w, string(text), `"mean_seconds":null`)
		},
		"odd keys hide nothing else": func(w *world) {
			now := w.now()
			w.figures(now, lua.ClassFigures{Class: "A|B", Processed: 1, Time: time.Second, Runs: at(0, 1)})
			w.figures(now, lua.ClassFigures{Class: "C", Processed: 1, Time: time.Second, Runs: at(0, 1)})
			w.do("HSET", w.keys.ClassMinute(now), "odd", "1", "D|p", "many", "E|p", "-4", "F|other", "2")
			w.do("SET", w.keys.ClassMinute(now.Add(-time.Minute)), "x")
			w.do("DEL", w.keys.RunHistogram("C", now))
			w.do("LPUSH", w.keys.RunHistogram("C", now), "x")
			list := w.classes(ClassWindow{})
			require.Len(w, list.Problems, 2)
			names := []string{}
			for _, class := range list.Classes {
				names = append(names, class.Name)
			}
			require.Equal(w, []string{"A|B", "C", "F"}, names)
		},
		"lists the classes with the most runs": func(w *world) {
			now := w.now()
			for n := range maxSeen + 5 {
				w.figures(now, lua.ClassFigures{Class: fmt.Sprint("class ", n), Processed: uint64(n + 1)})
			}
			list := w.classes(ClassWindow{})
			require.Len(w, list.Classes, maxClasses)
			require.Equal(w, maxSeen, list.ClassCount)
			require.Len(w, list.Problems, 1)
		},
		"a window has an end": func(w *world) {
			for _, last := range []time.Duration{-time.Second, 73 * time.Hour} {
				_, err := w.inspector.Classes(w.Context(), ClassWindow{Last: last})
				require.ErrorContains(w, err, "redis keeps the statistics of 72h")
			}
		},
	})
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	require.Nil(t, durationsOf(lua.Histogram{}))
	var even lua.Histogram
	for i := range even {
		even[i] = 100
	}
	got := durationsOf(even)
	require.Equal(t, lua.HistogramBounds[12], got.P50.Duration)
	require.InDelta(t, 302, got.P95.Seconds(), 1)
	require.Equal(t, lua.HistogramBounds[24], got.P99.Duration, "the last bucket has no upper bound")
	single := at(0, 1)
	require.LessOrEqual(t, durationsOf(single).P99.Duration, lua.HistogramBounds[0])
}

// at is a histogram with one full bucket.
func at(bucket int, count uint64) (h lua.Histogram) {
	h[bucket] = count
	return h
}

func (w *world) classes(window ClassWindow) Classes {
	w.Helper()
	list, err := w.inspector.Classes(w.Context(), window)
	require.NoError(w, err)
	return list
}

// now is Redis' time: Classes asks it for the last minute.
func (w *world) now() time.Time {
	w.Helper()
	now, err := lua.TimeOf(w.driver.Do(w.Context(), lua.AskTime)[0])
	require.NoError(w, err)
	return now
}

func (w *world) figures(at time.Time, figures lua.ClassFigures) {
	w.Helper()
	require.NoError(w, w.driver.Do(w.Context(), w.keys.AddFigures([]lua.ClassFigures{figures}, at))[0].Err)
}
