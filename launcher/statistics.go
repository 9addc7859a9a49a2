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

// Counters holds what a process has counted since it was made, and how many jobs it runs now.
type Counters struct {
	// Runs are the ended runs by class and queue, in the order in which they first ran.
	Runs []RunCounts
	// Recovered counts jobs that this process brought back from processes that died, and Lost jobs that others
	// brought back from this one: their results were dropped.
	Recovered, Lost uint64
	// RoundTrips are the calls that Redis answered, each with all commands of its pipeline, and how long they
	// took; an idle wait is not among them. Unanswered counts calls without an answer.
	RoundTrips Distribution
	Unanswered uint64
	// Busy counts running jobs, of Concurrency at most.
	Busy, Concurrency int
}

// Counters returns the counters of the process.
func (l *Launcher) Counters() Counters {
	var counters Counters
	for _, s := range l.shards {
		counters.add(s.statistics.snapshot())
	}
	counters.Lost, counters.Busy, counters.Concurrency = l.loop.Lost(), l.Busy(), l.Concurrency()
	return counters
}

// add adds the counters of another shard.
func (c *Counters) add(more Counters) {
	for i := range more.Runs {
		runs := &more.Runs[i]
		same := func(own RunCounts) bool { return own.Class == runs.Class && own.Queue == runs.Queue }
		if at := slices.IndexFunc(c.Runs, same); at >= 0 {
			c.Runs[at].Add(runs)
		} else {
			c.Runs = append(c.Runs, *runs)
		}
	}
	c.Recovered += more.Recovered
	c.Unanswered += more.Unanswered
	c.RoundTrips.merge(&more.RoundTrips)
}

// series are the counts of one class and queue.
type series struct {
	RunCounts
	written RunCounts // the counts that Redis has
}

type seriesKey struct{ class, queue string }

// statistics count what a process does: its runs by class and queue, and the totals of its Counters.
type statistics struct {
	denied sync.Once // a denied command was logged

	mu     sync.Mutex
	list   []*series
	by     map[seriesKey]*series // also by names that are shown in another form
	totals Counters              // Recovered, RoundTrips and Unanswered
}

// countRun counts a run that has ended. It is part of the cost of every job.
func (s *statistics) countRun(r *run, clock *lua.Clock) {
	took := time.Since(r.startedAt)
	waited := time.Duration(0)
	enqueued, known := r.job.EnqueuedAt()
	if known {
		waited = max(clock.At(r.startedAt).Sub(enqueued), 0) // a producer's clock may be ahead
	}
	exit := slices.Index(job.Exits[:], r.outcome.Exit())
	processed, failed := r.outcome.Counts()
	class := cmp.Or(r.job.Wrapped(), r.job.Class()) // as in Sidekiq's metrics, which do not use the display class

	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.ofLocked(class, r.Queue)
	if exit >= 0 {
		counts.Exits[exit]++
	}
	if !processed || r.outcome.Exit().Unfinished() && !failed {
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

// countRecovered counts jobs that were brought back from a process that died.
func (s *statistics) countRecovered(jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.Recovered += uint64(jobs)
}

// countTrip counts a round trip to Redis; err is the error of its last call. A refusal is an answer.
func (s *statistics) countTrip(took time.Duration, err error) {
	var refused *driver.ServerError
	answered := err == nil || errors.As(err, &refused)
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered {
		s.totals.RoundTrips.add(took)
	} else {
		s.totals.Unanswered++
	}
}

// snapshot returns everything that was counted, as it is at one instant.
func (s *statistics) snapshot() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	counters := s.totals
	counters.Runs = make([]RunCounts, len(s.list))
	for i, series := range s.list {
		counters.Runs[i] = series.RunCounts
	}
	return counters
}

// counting returns a client whose round trips are counted.
func (s *shard) counting(client driver.Client) driver.Client {
	return countedClient{client, &s.statistics}
}

// A countedClient counts the round trips of a client and of its lanes.
type countedClient struct {
	driver.Client
	statistics *statistics
}

// Do implements driver.Client.
func (c countedClient) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	sentAt := time.Now()
	replies := c.Client.Do(ctx, calls...)
	took := time.Since(sentAt)
	var err error
	if len(replies) > 0 {
		err = replies[len(replies)-1].Err
	}
	c.statistics.countTrip(took, err)
	return replies
}

// Lane implements driver.Client.
func (c countedClient) Lane(conns int) (driver.Client, error) {
	lane, err := c.Client.Lane(conns)
	if err != nil {
		return nil, err
	}
	return countedClient{lane, c.statistics}, nil
}
