package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
)

// Why these are River's best. The figures are medians of interleaved drains of 20,000 jobs by this subject on
// 2026-11-21, on two cores of an Intel Xeon that other programs used as well, with PostgreSQL 15 on the same
// machine: compare them with each other only. `go run ./bench drain --peers river --concurrency N` repeats
// them.
//
// PostgreSQL runs as River's users run it: synchronous_commit and fsync stay on, because a job that was
// inserted or completed must survive a crash. shared_buffers hold the table, and max_wal_size is large enough
// that no checkpoint falls into a run; beyond that the server's defaults hold.
const (
	// River's own benchmark uses these two, and 2,000 workers. With the defaults, 100 ms and 1 s, 2,000
	// workers made 9,000 jobs a second instead of 13,900. The poll also bounds how late a job starts that was
	// scheduled more than 5 s ahead.
	fetchCooldown     = 2 * time.Millisecond
	fetchPollInterval = 20 * time.Millisecond
	// 100 workers made 9,900 jobs a second, 500 made 11,700, 1,000 made 14,200 and 2,000 made 13,900, but
	// 20,500 to 15,500 in the better runs of both.
	bestWorkers = 2000
	// connections is the pool's size. The worker uses few: 4, 10 and 30 drain alike. Ten callers that insert
	// one job each, every insert a transaction of its own, want one each: 3,300 a second with 10, 2,500 with
	// 4, 3,000 with 20.
	connections = 10
	// batch is that of River's own benchmark, inserted with COPY from so many goroutines: 89,000 jobs a
	// second from 4, 84,000 from 2, 76,000 from 1, and 81,000 from 1 in batches of 20,000.
	batch     = 5000
	inserters = 4
)

// settings are what differs from task to task.
type settings struct {
	workers  int  // zero: this client only inserts
	defaults bool // fetchCooldown and fetchPollInterval are River's own
}

func choose(task subject.Task) settings {
	switch {
	case measure.Stores(task.Measure):
		return settings{} // a client without workers is how River's users insert from their web servers
	case task.Best:
		return settings{workers: bestWorkers}
	default:
		return settings{workers: task.Concurrency, defaults: measure.Timed(task.Measure)}
	}
}

// config is River's. What is not named is River's default.
func (s settings) config(w *worker) *river.Config {
	config := &river.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if !s.defaults {
		config.FetchCooldown, config.FetchPollInterval = fetchCooldown, fetchPollInterval
	}
	if s.workers > 0 {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}}
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, w)
	}
	return config
}

func (s settings) String() string {
	switch {
	case s.workers == 0:
		return fmt.Sprintf("%d connections, bulk in batches of %d from %d goroutines", connections, batch, inserters)
	case s.defaults:
		return fmt.Sprintf("concurrency %d, fetch cooldown 100ms, poll 1s (its defaults), %d connections", s.workers, connections)
	default:
		return fmt.Sprintf("concurrency %d, fetch cooldown %s, poll %s, %d connections", s.workers, fetchCooldown, fetchPollInterval, connections)
	}
}
