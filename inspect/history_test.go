package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistory(t *testing.T) {
	promises(t, map[string]func(w *world){
		"has the counts of each day, today last": func(w *world) {
			now, err := w.inspector.Now(w.Context())
			require.NoError(w, err)
			w.do("SET", w.keys.ProcessedOn(now), "7")
			w.do("SET", w.keys.FailedOn(now), "2")
			w.do("SET", w.keys.ProcessedOn(now.AddDate(0, 0, -2)), "5")
			w.do("SET", w.keys.ProcessedOn(now.AddDate(0, 0, -3)), "9")
			days, problems, err := w.inspector.History(w.Context(), 3)
			require.NoError(w, err)
			require.Empty(w, problems)
			date := func(ago int) string { return now.AddDate(0, 0, -ago).Format(time.DateOnly) }
			require.Equal(w, []Day{{Date: date(2), Processed: 5}, {Date: date(1)}, {Date: date(0), Processed: 7, Failed: 2}}, days)
		},
		"is bounded": func(w *world) {
			days, _, err := w.inspector.History(w.Context(), 1_000_000)
			require.NoError(w, err)
			require.Len(w, days, MaxDays)
			dates := map[string]bool{}
			for _, day := range days {
				dates[day.Date] = true
			}
			require.Len(w, dates, MaxDays)
			days, _, err = w.inspector.History(w.Context(), -1)
			require.NoError(w, err)
			require.Len(w, days, 1)
		},
		"an odd count is a problem and hides nothing": func(w *world) {
			now, err := w.inspector.Now(w.Context())
			require.NoError(w, err)
			w.do("SET", w.keys.ProcessedOn(now), "many")
			w.do("LPUSH", w.keys.FailedOn(now), "x")
			w.do("SET", w.keys.FailedOn(now.AddDate(0, 0, -1)), "4")
			days, problems, err := w.inspector.History(w.Context(), 2)
			require.NoError(w, err)
			require.Len(w, problems, 1)
			require.Equal(w, []int64{4, 0}, []int64{days[0].Failed, days[1].Failed})
		},
	})
}

func TestResetCounters(t *testing.T) {
	promises(t, map[string]func(w *world){
		"sets the named ones to zero, and keeps the days": func(w *world) {
			now, err := w.inspector.Now(w.Context())
			require.NoError(w, err)
			for _, key := range []string{w.keys.Processed(), w.keys.Failed(), w.keys.Refusals(), w.keys.ProcessedOn(now)} {
				w.do("SET", key, "3")
			}
			counts := func() []int64 {
				status := w.status()
				return []int64{status.Processed, status.Failed, status.Duplicates}
			}
			require.NoError(w, w.inspector.ResetCounters(w.Context(), CounterFailed))
			require.Equal(w, []int64{3, 0, 3}, counts())
			require.NoError(w, w.inspector.ResetCounters(w.Context()))
			require.Equal(w, []int64{0, 0, 3}, counts())
			require.NoError(w, w.inspector.ResetCounters(w.Context(), CounterDuplicates))
			require.Equal(w, []int64{0, 0, 0}, counts())
			require.Error(w, w.inspector.ResetCounters(w.Context(), "all"))
			require.Equal(w, "3", w.do("GET", w.keys.ProcessedOn(now)))
		},
	})
}
