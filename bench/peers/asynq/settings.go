package main

import (
	"fmt"
	"time"

	"github.com/belayq/belay/bench/peers/talk"
)

const (
	bestConcurrency = 50
	bestCallers     = 50
	bestPool        = 100
	bestCheck       = 2 * time.Millisecond
)

// settings are those that a task calls for. What is zero is asynq's default.
type settings struct {
	concurrency  int
	connections  int           // of the one pool
	callers      int           // goroutines that enqueue in bulk
	check        time.Duration // TaskCheckInterval
	delayedCheck time.Duration // DelayedTaskCheckInterval
}

func choose(task talk.Task) settings {
	s := settings{
		concurrency: task.Concurrency, connections: bestPool, callers: bestCallers,
		check: bestCheck, delayedCheck: bestCheck,
	}
	switch {
	case talk.Timed(task.Measure) && !task.Best:
		s.check, s.delayedCheck = 0, 0
	case task.Measure == "victim":
		return settings{concurrency: task.Concurrency, callers: bestCallers}
	case task.Measure == "survivor":
		return settings{}
	case task.Best:
		s.concurrency = bestConcurrency
	}
	return s
}

func (s settings) String() string {
	return fmt.Sprintf("concurrency %d, %s", s.concurrency, s.looks())
}

// looks says how often the worker looks for jobs, and for those that are due.
func (s settings) looks() string {
	if s.check == 0 {
		return "looks at an empty queue every 1 s and for due jobs every 5 s (its defaults)"
	}
	return fmt.Sprintf("looks at an empty queue every %s and for due jobs every %s", s.check, s.delayedCheck)
}
