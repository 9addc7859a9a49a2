package client

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A time that only a mistake explains is an error of the push, one at a time and in bulk. It is never taken
// for now.
func TestATimeThatCannotBeMeantIsAnErrorAndNotNow(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	these := make(map[string]func(w *world))
	for name, c := range map[string]struct {
		job  RawJob
		says string // empty: it is pushed, with this status
		is   Status
	}{
		"at the last instant of an int64":     {RawJob{At: time.Unix(math.MaxInt64, 0)}, "hundred years", ""},
		"at one that a time.Time wraps":       {RawJob{At: time.Unix(math.MaxInt64-62135596800, 0)}, "hundred years", ""},
		"at the first instant of an int64":    {RawJob{At: time.Unix(math.MinInt64, 0)}, "before 1970", ""},
		"at milliseconds taken for seconds":   {RawJob{At: time.Unix(time.Now().UnixMilli(), 0)}, "hundred years", ""},
		"at just too far":                     {RawJob{At: time.Now().Add(century + time.Hour)}, "hundred years", ""},
		"at the year 1":                       {RawJob{At: time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))}, "before 1970", ""},
		"at the last second before 1970":      {RawJob{At: time.Unix(-1, 0)}, "before 1970", ""},
		"in the longest duration":             {RawJob{In: math.MaxInt64}, "hundred years", ""},
		"in the most negative duration":       {RawJob{In: math.MinInt64}, "overflow", ""},
		"in and at":                           {RawJob{In: time.Hour, At: time.Now().Add(time.Hour)}, "set one", ""},
		"at no time is now":                   {RawJob{At: time.Time{}}, "", StatusQueued},
		"at the first second of 1970 is now":  {RawJob{At: time.Unix(0, 0)}, "", StatusQueued},
		"at yesterday is now":                 {RawJob{At: time.Now().Add(-24 * time.Hour)}, "", StatusQueued},
		"in less than nothing is now":         {RawJob{In: -time.Hour}, "", StatusQueued},
		"at an instant to come is scheduled":  {RawJob{At: time.Now().Add(24 * time.Hour)}, "", StatusScheduled},
		"in almost a hundred years":           {RawJob{In: century}, "", StatusScheduled},
		"at an instant in almost a century":   {RawJob{At: time.Now().Add(century - time.Hour)}, "", StatusScheduled},
		"in a time that a float64 has to cut": {RawJob{In: 1<<53 + 1}, "", StatusScheduled},
	} {
		c.job.Class = "A"
		these[name] = func(w *world) {
			alone, err := w.client.Push(w.Context(), c.job)
			many, errMany := w.client.PushMany(w.Context(), slices.Values([]RawJob{c.job}))
			require.Len(w, many, 1)
			if c.says == "" {
				require.NoError(w, errors.Join(err, errMany))
				require.Equal(w, []Status{c.is, c.is}, []Status{alone.Status, many[0].Status})
				return
			}
			for _, err := range []error{err, errMany, c.job.Check()} {
				require.ErrorContains(w, err, c.says)
			}
			var invalid *InvalidError
			require.ErrorAs(w, err, &invalid)
			require.Equal(w, []Status{StatusNotPushed, StatusNotPushed}, []Status{alone.Status, many[0].Status})
			require.Empty(w, w.queue(DefaultQueue))
			require.Zero(w, w.do("ZCARD", w.keys.Schedule()))
		}
	}
	promises(t, Config{}, these)
}
