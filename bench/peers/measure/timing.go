package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// A Timing is a set of numbered jobs, the instant from which each is timed, and when it started.
type Timing struct {
	// Due is set before the first job is pushed.
	Due  []time.Time
	late []time.Duration
	runs []atomic.Int32
	left atomic.Int64
	all  chan struct{} // closed when each has started
}

// NewTiming returns the timing of so many jobs.
func NewTiming(jobs int) *Timing {
	t := &Timing{Due: make([]time.Time, jobs), late: make([]time.Duration, jobs), runs: make([]atomic.Int32, jobs), all: make(chan struct{})}
	t.left.Store(int64(jobs))
	return t
}

// Left is how many jobs have not started yet.
func (t *Timing) Left() int64 { return t.left.Load() }

// Starts notes that a job has started at an instant. The error of Finish names one that starts twice.
func (t *Timing) Starts(n int, now time.Time) error {
	if n < 0 || n >= len(t.Due) {
		return fmt.Errorf("job %d is none of this task's", n)
	}
	if t.runs[n].Add(1) > 1 {
		return nil
	}
	t.late[n] = now.Sub(t.Due[n])
	if t.left.Add(-1) == 0 {
		close(t.all)
	}
	return nil
}

// patience is how long after the last instant all may stand still while jobs are missing: a system that is slow
// by design still gets its figure.
const patience = 30 * time.Second

// Finish waits until all have started, and makes their times the last event.
func (t *Timing) Finish(ctx context.Context) (e subject.Event, err error) {
	return t.finish(ctx, time.Until(slices.MaxFunc(t.Due, time.Time.Compare))+patience)
}

func (t *Timing) finish(ctx context.Context, patience time.Duration) (e subject.Event, err error) {
	if err := t.wait(ctx, patience); err != nil {
		return e, err
	}
	for n := range t.late {
		e.LatenciesUS = append(e.LatenciesUS, inMicros(t.late[n]))
	}
	return e, t.check()
}

// wait gives up when no job has started for as long as it is willing to wait.
func (t *Timing) wait(ctx context.Context, patience time.Duration) error {
	for left := t.Left(); ; left = t.Left() {
		if err := Await(ctx, t.all, patience); err == nil || ctx.Err() != nil {
			return err
		}
		if left == t.Left() {
			return fmt.Errorf("%d of %d jobs had not run, and none had for %s", left, len(t.runs), patience)
		}
	}
}

// check returns an error that names a job which did not run exactly once.
func (t *Timing) check() error {
	for n := range t.runs {
		if times := t.runs[n].Load(); times != 1 {
			return fmt.Errorf("job %d ran %d times", n, times)
		}
	}
	return nil
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Count is how many jobs the task's rate makes in its time.
func Count(task subject.Task) int { return int(task.Rate * task.Seconds) }

// idleFor is how long a worker has nothing to do before it counts as idle.
const idleFor = time.Second

// OpenLoop draws the instants and calls send at each of them, each in a goroutine of its own that waits for its
// instant: no slow call holds up the next, and none waits for a goroutine to be woken. It returns how late the
// calls began, in the median: that much of the times is the machine's, and not the system's.
func OpenLoop(ctx context.Context, task subject.Task, due []time.Time, send func(n int) error) (map[string]float64, error) {
	begin := time.Now().Add(idleFor)
	for n, at := range instants(rand.New(rand.NewPCG(rand.Uint64(), 0)), task.Rate, len(due)) {
		due[n] = begin.Add(at)
	}
	var sending sync.WaitGroup
	errs, behind := make([]error, len(due)), make([]float64, len(due))
	for n, at := range due {
		sending.Go(func() {
			if errs[n] = wakeUntil(ctx, at); errs[n] == nil {
				behind[n] = inMicros(time.Since(at))
				errs[n] = send(n)
			}
		})
	}
	sending.Wait()
	return map[string]float64{"sent_late_us": report.Median(behind)}, errors.Join(errs...)
}

// Await waits for one word, or the close, of a channel.
func Await(ctx context.Context, c <-chan struct{}, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c:
		return nil
	case <-timer.C:
		return fmt.Errorf("waited %v", within.Round(time.Millisecond))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause waits so long, unless ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
