package launcher

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belayq/belay/driver"
)

// Counters holds what a process has counted since it was made, and how many jobs it runs now.
type Counters struct {
	// Runs are the ended runs by class and queue; see Launcher.Runs.
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
	trips, unanswered := l.trips.read()
	return Counters{
		Runs: l.Runs(), Recovered: l.recoveredJobs.Load(), Lost: l.loop.Lost(), RoundTrips: trips, Unanswered: unanswered,
		Busy: l.Busy(), Concurrency: l.Concurrency(),
	}
}

// trips count the round trips to Redis.
type trips struct {
	mu         sync.Mutex
	answered   Distribution
	unanswered uint64
}

func (t *trips) read() (answered Distribution, unanswered uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered, t.unanswered
}

// counting returns a client whose round trips are counted.
func (l *Launcher) counting(client driver.Client) driver.Client {
	return countedClient{client, &l.trips}
}

// A countedClient counts the round trips of a client and of its lanes.
type countedClient struct {
	driver.Client
	trips *trips
}

// Do implements driver.Client.
func (c countedClient) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	sentAt := time.Now()
	replies := c.Client.Do(ctx, calls...)
	took := time.Since(sentAt)
	c.trips.mu.Lock()
	defer c.trips.mu.Unlock()
	if last := len(replies) - 1; last >= 0 && unanswered(replies[last].Err) {
		c.trips.unanswered++
	} else {
		c.trips.answered.add(took)
	}
	return replies
}

// unanswered reports whether Redis has not answered a call: a refusal is an answer.
func unanswered(err error) bool {
	var refused *driver.ServerError
	return err != nil && !errors.As(err, &refused)
}

// Lane implements driver.Client.
func (c countedClient) Lane(conns int) (driver.Client, error) {
	lane, err := c.Client.Lane(conns)
	if err != nil {
		return nil, err
	}
	return countedClient{lane, c.trips}, nil
}
