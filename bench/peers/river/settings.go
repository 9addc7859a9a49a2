package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"

	"github.com/belayq/belay/bench/peers/talk"
)

const (
	fetchCooldown     = 2 * time.Millisecond
	fetchPollInterval = 20 * time.Millisecond
	bestWorkers       = 2000
	connections       = 10
	batch             = 5000
	inserters         = 4
)

// settings are what differs from task to task.
type settings struct {
	defaults bool // of how often it looks for jobs
	workers int // zero: this client only inserts
}

func choose(task talk.Task) settings {
	switch {
	case task.Measure == "enqueue" || task.Measure == "bulk" || task.Measure == "push":
		return settings{} // a client without workers is how River's users insert from their web servers
	case task.Best:
		return settings{workers: bestWorkers}
	default:
		return settings{workers: task.Concurrency, defaults: talk.Timed(task.Measure)}
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
	text := fmt.Sprintf("%d connections, bulk in batches of %d from %d goroutines", connections, batch, inserters)
	switch {
	case s.workers > 0 && s.defaults:
		text = fmt.Sprintf("concurrency %d, fetch cooldown 100ms, poll 1s (its defaults), %s", s.workers, text)
	case s.workers > 0:
		text = fmt.Sprintf("concurrency %d, fetch cooldown %s, poll %s, %s", s.workers, fetchCooldown, fetchPollInterval, text)
	}
	return text
}
