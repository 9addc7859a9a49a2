package launcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

const (
	// maxSeries bounds the classes and queues that a process counts separately. Further ones are counted as
	// OtherClass, one for each queue, so that a producer that makes up class names fills neither this
	// process' memory nor Redis.
	maxSeries = 500
	// OtherClass replaces further classes; no class of Ruby or Go has parentheses.
	OtherClass = "(other)"
	// statisticsEvery is how often the figures of classes are written to Redis. Sidekiq writes its own every
	// ten seconds.
	statisticsEvery = 5 * time.Second
)

// DurationBounds are the upper bounds of the buckets of a Distribution, exclusive: those of Sidekiq's
// histograms and, because most Go jobs end within the first of them, four below.
var DurationBounds = func() (bounds [finer + len(lua.HistogramBounds)]time.Duration) {
	copy(bounds[:], []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond})
	copy(bounds[finer:], lua.HistogramBounds[:])
	return bounds
}()

// finer is the number of bounds below those of Sidekiq's histograms.
const finer = 4

// A Distribution counts durations by bucket, the last one without a bound, and sums them up.
type Distribution struct {
	Buckets [len(DurationBounds) + 1]uint64
	Sum     time.Duration
}

func (d *Distribution) add(took time.Duration) {
	i := 0
	for i < len(DurationBounds) && took >= DurationBounds[i] {
		i++
	}
	d.Buckets[i]++
	d.Sum += took
}

func (d *Distribution) merge(more *Distribution) {
	for i, n := range more.Buckets {
		d.Buckets[i] += n
	}
	d.Sum += more.Sum
}

// since returns what was added since an earlier state, in the buckets of Redis.
func (d *Distribution) since(earlier *Distribution) (h lua.Histogram) {
	for i := range d.Buckets {
		h[max(i-finer, 0)] += d.Buckets[i] - earlier.Buckets[i]
	}
	return h
}

// RunCounts is what a process has counted of the runs of one class from one queue.
type RunCounts struct {
	Class, Queue string
	// Exits counts runs by how they ended, in the order of job.Exits.
	Exits [len(job.Exits)]uint64
	// Processed counts the runs that succeeded or failed, and Failed those that failed. A job that never ran is
	// not among them, and neither is a run that was cut short: snoozed, requeued or cancelled.
	Processed, Failed uint64
	// Took is how long the successful runs took: a failed run may end at any point of its work. Waited is how
	// long the jobs of all processed runs had been in their queue.
	Took, Waited Distribution
}

// Add adds the counts of another class.
func (c *RunCounts) Add(more *RunCounts) {
	for i, n := range more.Exits {
		c.Exits[i] += n
	}
	c.Processed += more.Processed
	c.Failed += more.Failed
	c.Took.merge(&more.Took)
	c.Waited.merge(&more.Waited)
}

// series are the counts of one class and queue.
type series struct {
	RunCounts
	written RunCounts // the counts that Redis has
}

type seriesKey struct{ class, queue string }

// statistics count the runs of a process by class and queue.
type statistics struct {
	denied sync.Once // a denied command was logged

	mu   sync.Mutex
	list []*series
	by   map[seriesKey]*series // also by names that are shown in another form
}

// count counts a run that has ended. It is part of the cost of every job.
func (s *statistics) count(r *run, outcome job.Outcome, clock *lua.Clock) {
	took := time.Since(r.startedAt)
	waited := time.Duration(0)
	enqueued, known := r.job.EnqueuedAt()
	if known {
		waited = max(clock.At(r.startedAt).Sub(enqueued), 0) // a producer's clock may be ahead
	}
	exit := slices.Index(job.Exits[:], outcome.Exit())
	processed, failed := outcome.Counts()
	class := cmp.Or(r.job.Wrapped(), r.job.Class()) // as in Sidekiq's metrics, which do not use the display class

	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.ofLocked(class, r.taken.Queue)
	if exit >= 0 {
		counts.Exits[exit]++
	}
	if !processed || outcome.Exit().Unfinished() && !failed {
		return
	}
	counts.Processed++
	if known {
		counts.Waited.add(waited)
	}
	if failed {
		counts.Failed++
	} else {
		counts.Took.add(took)
	}
}

// ofLocked returns the series of a class and queue.
func (s *statistics) ofLocked(class, queue string) *series {
	found := s.by[seriesKey{class, queue}]
	if found != nil {
		return found
	}
	full := len(s.by) >= maxSeries
	shown := seriesKey{strings.ReplaceAll(logbook.CutName(class), "|", "_"), queue} // Sidekiq's readers split fields at bars
	if full {
		shown.class = OtherClass
	}
	if found = s.by[shown]; found == nil {
		found = &series{RunCounts: RunCounts{Class: shown.class, Queue: queue}}
		s.list = append(s.list, found)
		if s.by == nil {
			s.by = make(map[seriesKey]*series)
		}
		s.by[shown] = found
	}
	if !full {
		s.by[seriesKey{strings.Clone(class), queue}] = found // not the payload, of which class is a part
	}
	return found
}

// Runs returns what the process has counted of its runs, by class and queue, in the order in which they first
// ran.
func (l *Launcher) Runs() []RunCounts {
	s := &l.statistics
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make([]RunCounts, len(s.list))
	for i, series := range s.list {
		counts[i] = series.RunCounts
	}
	return counts
}

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
				Class: now.Class, Processed: now.Processed - then.Processed, Failed: now.Failed - then.Failed, Time: now.Took.Sum - then.Took.Sum,
				Runs: now.Took.since(&then.Took), Waits: now.Waited.since(&then.Waited),
			}})
		}
	}
	return list
}

// writeStatistics adds what has been counted since the last call to the figures of the minute. They are
// counts for people: after a call whose result is unknown they are dropped, because a repeat could count them
// twice; what could not be sent stays, as part of the totals that are kept anyway.
func (l *Launcher) writeStatistics(ctx context.Context, client driver.Client) error {
	now := l.clock.Now()
	for page := range slices.Chunk(l.statistics.unwritten(), lua.MaxFigures) {
		figures := make([]lua.ClassFigures, len(page))
		for i := range page {
			figures[i] = page[i].figures
		}
		err := l.statisticsError(client.Do(ctx, l.keys.AddFigures(figures, now))[0].Err)
		var unsent *driver.NotSentError
		if errors.As(err, &unsent) {
			return err
		}
		for i := range page {
			page[i].of.written = page[i].counts
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lastStatistics writes the figures of the last seconds of a process, if there is time left.
func (l *Launcher) lastStatistics() {
	ctx, cancel := context.WithDeadline(context.Background(), *l.goneAt.Load())
	defer cancel()
	_ = l.writeStatistics(ctx, l.lanes.heart) // nothing more can be done
}

// statisticsError returns the error of a call that did not reach Redis, or whose reply did not come. It returns
// nil for a refused call, because workers run without statistics. A command that the Redis user may not use is
// logged once. Other refusals (a full Redis, a replica, a missing password) concern all duties, which report
// them.
func (l *Launcher) statisticsError(err error) error {
	var refused *driver.ServerError
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Code == "NOPERM" {
		l.statistics.denied.Do(func() {
			l.cfg.Log.Warn("statistics of classes incomplete: redis denies a command; this is logged once", "error", refused)
		})
	}
	return nil
}
