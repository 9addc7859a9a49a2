// Package measuretest tries a job system at the bench's measures, from a test of its own.
package measuretest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/peers/talk"
)

// Do runs a task and returns its last event, which must be that it is done.
func Do(t *testing.T, system measure.System, task talk.Task) talk.Event {
	t.Helper()
	line, err := json.Marshal(task)
	require.NoError(t, err)
	var out bytes.Buffer
	wire := talk.Open(strings.NewReader(string(line)+"\ngo\ngo\n"), &out, func() {})
	require.NoError(t, measure.Run(t.Context(), wire, system), task.Measure)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last talk.Event
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, talk.Done, last.Event)
	return last
}

// EveryMeasure does a small task of each measure that ends by itself, and holds that it ends with figures.
func EveryMeasure(t *testing.T, system measure.System, url string) {
	t.Helper()
	task := talk.Task{URL: url, Jobs: 500, Concurrency: 5, Producers: 3, Rate: 100, Seconds: 0.5}
	for _, name := range []string{"drain", "enqueue", "bulk", "push"} {
		task.Measure, task.Best = name, false
		require.Positive(t, Do(t, system, task).Seconds, name)
		task.Best = true
		require.Positive(t, Do(t, system, task).Seconds, "%s at its best", name)
	}
	for name, jobs := range map[string]int{"latency": 50, "schedule": 50, "burst": 500} {
		task.Measure, task.Best = name, false
		require.Len(t, Do(t, system, task).Latencies, jobs, name)
	}
}
