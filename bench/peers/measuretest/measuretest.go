// Package measuretest tries a job system at the bench's measures, from a test of its own.
package measuretest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/subject"
)

// Events runs a task and returns all its events.
func Events(t *testing.T, system measure.System, task subject.Task) []subject.Event {
	t.Helper()
	line, err := json.Marshal(task)
	require.NoError(t, err)
	in, bench := io.Pipe() // never closed: a subject whose input ends, ends its process
	go func() { _, _ = bench.Write([]byte(string(line) + "\ngo\ngo\ngo\n")) }()
	var out bytes.Buffer
	subject.Serve(context.WithoutCancel(t.Context()), in, &out, measure.Of(system))
	var events []subject.Event
	for decoder := json.NewDecoder(&out); ; {
		var event subject.Event
		if decoder.Decode(&event) != nil {
			return events
		}
		events = append(events, event)
	}
}

// Do runs a task and returns its last event, which must be that it is done.
func Do(t *testing.T, system measure.System, task subject.Task) subject.Event {
	t.Helper()
	events := Events(t, system, task)
	require.NotEmpty(t, events)
	last := events[len(events)-1]
	require.Equal(t, subject.Done, last.Event, "%s: %s", task.Measure, last.Text)
	return last
}

// EveryMeasure does a small task of each measure that ends by itself, and holds that it ends with figures.
func EveryMeasure(t *testing.T, system measure.System, url string) {
	t.Helper()
	task := subject.Task{URL: url, Jobs: 500, Concurrency: 5, Producers: 3, Rate: 100, Seconds: 0.5}
	for _, name := range []string{"drain", "enqueue", "bulk", "push"} {
		task.Measure, task.Best = name, false
		require.Positive(t, Do(t, system, task).Seconds, name)
		task.Best = true
		require.Positive(t, Do(t, system, task).Seconds, "%s at its best", name)
	}
	for name, jobs := range map[string]int{"latency": 50, "schedule": 50, "burst": 500} {
		task.Measure, task.Best = name, false
		require.Len(t, Do(t, system, task).LatenciesUS, jobs, name)
	}
	task.Measure, task.Best, task.Keys, task.Limit, task.Millis = "starve", false, 2, 2, 1
	done := Do(t, system, task)
	require.Len(t, done.LatenciesUS, 3, "starve")
	require.Positive(t, done.Extra["runs"], "starve")
}
