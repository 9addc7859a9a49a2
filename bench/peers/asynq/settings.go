package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
)

// Why these are asynq's best. The figures are medians of interleaved runs of this subject on 2026-11-21, on
// two cores of an Intel Xeon that other programs used as well, with Redis 7.0.15 on the same machine: compare
// them with each other only. `go run ./bench drain --peers asynq --concurrency N` repeats the first kind.
//
// Logging is off but for fatal errors, as in asynq's own benchmark, and no task is retained.
const (
	// asynq's own benchmark runs 10 at once. A server takes tasks in one loop, one a round trip, so more
	// concurrency only hides the writing of completions: a drain of 20,000 made 9,700 tasks a second at 10,
	// 10,500 at 25, 10,900 at 50, 10,800 at 100 and at 200. With one of Go's processors instead of two, which
	// leaves Redis a core of its own, 10,700 at 50 and 11,800 at 100, where two made 9,100 in the same
	// minutes.
	bestConcurrency = 100
	// asynq has no call that enqueues several tasks, so bulk is many callers: 54,000 a second from 10, 55,000
	// from 20, 60,000 from 50 with a connection each, 47,000 from 100.
	bulkCallers = 50
	// connections is the size of the one pool that client and server share. For bulk, each caller has its
	// own; a drain was as fast with go-redis's default, which is 20 on two cores, as with 50, 100, 200 or
	// 400.
	connections = 50
	// checkInterval is for both of asynq's intervals: how often an idle server looks for a task, and how
	// often it looks for tasks that have fallen due. asynq polls, so its latency is this number. Half of the
	// tasks waited longer than 617 ms at the default; 6.7 at 10 ms; 4.4 at 5 ms; 2.1 at 2 ms; and 1.8 at 1
	// ms, where the polls of one idle server cost Redis a twentieth of a core. A drain does not idle.
	checkInterval = 2 * time.Millisecond
)

// settings are those that a task calls for. What is zero is asynq's default.
type settings struct {
	concurrency   int
	connections   int
	checkInterval time.Duration
	// alone leaves all cores but one to Redis: GOMAXPROCS is 1.
	alone bool
}

func choose(task subject.Task) settings {
	switch task.Measure {
	case "survivor":
		return settings{} // how soon it takes over at its defaults is what is measured
	case "victim":
		return settings{concurrency: task.Concurrency}
	}
	s := settings{connections: connections, checkInterval: checkInterval}
	switch {
	case measure.Stores(task.Measure):
	case task.Best:
		s.concurrency = bestConcurrency
		s.alone = task.Measure == "drain" && runtime.NumCPU() <= 2
	default:
		s.concurrency = task.Concurrency
		if measure.Timed(task.Measure) {
			s.checkInterval = 0
		}
	}
	return s
}

func (s settings) String() string {
	switch {
	case s.connections == 0:
		return "default settings"
	case s.concurrency == 0:
		return fmt.Sprintf("%d connections, bulk from %d goroutines", s.connections, bulkCallers)
	case s.checkInterval == 0:
		return fmt.Sprintf("concurrency %d, looks at an empty queue every 1s and for due jobs every 5s (its defaults)", s.concurrency)
	case s.alone:
		return fmt.Sprintf("concurrency %d, GOMAXPROCS 1", s.concurrency)
	default:
		return fmt.Sprintf("concurrency %d, looks at an empty queue and for due jobs every %s", s.concurrency, s.checkInterval)
	}
}
