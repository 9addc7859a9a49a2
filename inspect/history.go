package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
)

// MaxDays bounds a History: workers of Belay and Sidekiq keep the counts of a day for five years.
const MaxDays = 5 * 366

// A Day counts the runs that ended on one day in UTC. A failed run counts in both.
type Day struct {
	// Date is the day as YYYY-MM-DD.
	Date      string `json:"date"`
	Processed int64  `json:"processed"`
	Failed    int64  `json:"failed"`
}

// daysAtOnce is how many days one command reads.
const daysAtOnce = 512

// History returns the counts of the last days, at least one and at most MaxDays, today by Redis' clock last.
// A day on which nothing ran has zeros. It sends one command for every 512 days. Problems describes counts
// that could not be read.
func (i *Inspector) History(ctx context.Context, days int) (history []Day, problems []string, err error) {
	days = min(max(days, 1), MaxDays)
	now, err := i.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	var r reading
	dates := make([]time.Time, days)
	for n := range dates {
		dates[n] = now.AddDate(0, 0, n-days+1)
	}
	for page := range slices.Chunk(dates, daysAtOnce) {
		keys := make([]string, 0, 2*len(page))
		for _, date := range page {
			keys = append(keys, i.keys.ProcessedOn(date), i.keys.FailedOn(date))
		}
		counts := r.texts("history", i.driver.Do(ctx, driver.Command(append([]string{"MGET"}, keys...)...))[0])
		counts = append(counts, make([]string, len(keys)-len(counts))...)
		for n, date := range page {
			history = append(history, Day{
				Date:      date.Format(time.DateOnly),
				Processed: r.count(keys[2*n], counts[2*n]), Failed: r.count(keys[2*n+1], counts[2*n+1]),
			})
		}
	}
	return history, r.problems, r.err
}

// A Counter is a statistic that ResetCounters sets to zero.
type Counter string

// The counters.
const (
	CounterProcessed  Counter = "processed"
	CounterFailed     Counter = "failed"
	CounterDuplicates Counter = "duplicates"
)

// ResetCounters sets counters of Status to zero; without a name, processed and failed, as Sidekiq does. The
// counts by day do not change.
func (i *Inspector) ResetCounters(ctx context.Context, counters ...Counter) error {
	if len(counters) == 0 {
		counters = []Counter{CounterProcessed, CounterFailed}
	}
	var calls []driver.Call
	for _, counter := range counters {
		key, known := map[Counter]string{
			CounterProcessed: i.keys.Processed(), CounterFailed: i.keys.Failed(), CounterDuplicates: i.keys.Refusals(),
		}[counter]
		if !known {
			return fmt.Errorf("there is no counter %q", counter)
		}
		calls = append(calls, i.keys.Reset(key))
	}
	for _, reply := range i.do(ctx, calls) {
		if reply.Err != nil {
			return fmt.Errorf("reset counters: %w", reply.Err)
		}
	}
	return nil
}
