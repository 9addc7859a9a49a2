package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestAlerts(t *testing.T) {
	t.Parallel()
	texts := func(s inspect.Status) (texts []string) {
		for _, queue := range s.Queues {
			s.Enqueued += queue.Size
		}
		for _, alert := range alerts(s) {
			texts = append(texts, alert.Text)
		}
		return texts
	}
	queues := []inspect.Queue{{Name: "a", Size: 3, NoConsumer: true}, {Name: "b", Size: 1, NoConsumer: true}}
	require.Equal(t, []string{"No worker is alive; 4 jobs wait in queues"}, texts(inspect.Status{Queues: queues}))
	alive := []inspect.Process{{State: inspect.StateAlive, Queues: []string{"c"}}}
	require.Equal(t, []string{"3 jobs of queue a wait, and no process takes from it", "1 job of queue b waits, and no process takes from it"},
		texts(inspect.Status{Queues: queues, Processes: alive}))
	gated := []inspect.Queue{{Name: "a", Waiting: 2, NoConsumer: true}}
	require.Equal(t, []string{"No worker is alive; 2 jobs wait at limits"}, texts(inspect.Status{Waiting: 2, Queues: gated}))
	require.Contains(t, texts(inspect.Status{Waiting: 2, HeldByDead: 1, Queues: queues}), "No worker is alive; 7 jobs wait in queues or at limits or for recovery")
	require.Equal(t, []string{"2 jobs of queue a wait, and no process takes from it"}, texts(inspect.Status{Waiting: 2, Queues: gated, Processes: alive}))
	require.Empty(t, texts(inspect.Status{}), "without jobs, no worker is needed")
	require.Len(t, texts(inspect.Status{Queues: queues, ProcessCount: 2000}), 2, "not all processes are known")
}

func TestLateQueuesAreMarked(t *testing.T) {
	t.Parallel()
	late := inspect.Queue{Latency: inspect.Seconds{Duration: 2 * time.Minute}}
	require.True(t, late.Late())
	late.Paused = true
	require.False(t, late.Late(), "its jobs wait for the operator")
	require.False(t, inspect.Queue{Latency: inspect.Seconds{Duration: time.Second}}.Late())
}
