package launcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// statisticsEvery is how often the figures of classes and queues are written to Redis. Sidekiq writes its own
// every ten seconds.
const statisticsEvery = 5 * time.Second

// An unwritten holds the counts of a series that Redis does not have yet.
type unwritten struct {
	of      *series
	counts  RunCounts // at the time when figures was made
	figures lua.ClassFigures
}

func (s *statistics) unwritten() []unwritten {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []unwritten
	for _, series := range s.list {
		if now, then := &series.RunCounts, &series.written; now.Processed != then.Processed {
			list = append(list, unwritten{series, *now, lua.ClassFigures{
				Class: now.Class, Processed: now.Processed - then.Processed, Failed: now.Failed - then.Failed,
				Time: now.Took.Sum - then.Took.Sum,
				Runs: now.Took.since(&then.Took), Waits: now.Waited.since(&then.Waited),
			}})
		}
	}
	return list
}

// queueFigures sums the figures of series up by queue.
func queueFigures(page []unwritten) (list []lua.QueueFigures) {
	for _, u := range page {
		at := slices.IndexFunc(list, func(f lua.QueueFigures) bool { return f.Queue == u.counts.Queue })
		if at < 0 {
			at, list = len(list), append(list, lua.QueueFigures{Queue: u.counts.Queue})
		}
		list[at].Processed += u.figures.Processed
		list[at].Failed += u.figures.Failed
	}
	return list
}

// writeStatistics adds what has been counted since the last call to the figures of the minute. They are
// counts for people: after a call whose result is unknown they are dropped, because a repeat could count them
// twice; what could not be sent stays, as part of the totals that are kept anyway.
func (s *shard) writeStatistics(ctx context.Context, client driver.Client) error {
	now := s.clock.Now()
	for page := range slices.Chunk(s.statistics.unwritten(), lua.MaxFigures) {
		figures := make([]lua.ClassFigures, len(page))
		for i := range page {
			figures[i] = page[i].figures
		}
		replies := client.Do(ctx, s.keys.AddFigures(figures, now), s.keys.AddQueueFigures(queueFigures(page), now))
		err := s.statisticsError(replies[0].Err)
		var unsent *driver.NotSentError
		if errors.As(err, &unsent) {
			return err
		}
		for i := range page {
			page[i].of.written = page[i].counts
		}
		if err = cmp.Or(err, s.statisticsError(replies[1].Err)); err != nil {
			return err
		}
	}
	return nil
}

// statisticsError returns the error of a call that did not reach Redis, or whose reply did not come. It returns
// nil for a refused call, because workers run without statistics. A command that the Redis user may not use is
// logged once. Other refusals (a full Redis, a replica, a missing password) concern all duties, which report
// them.
func (s *shard) statisticsError(err error) error {
	var refused *driver.ServerError
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Code == "NOPERM" {
		s.statistics.denied.Do(func() {
			s.log.Warn("statistics of classes incomplete: redis denies a command; this is logged once", "error", refused)
		})
	}
	return nil
}
