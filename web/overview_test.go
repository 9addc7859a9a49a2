package web

import (
	"fmt"
	"strings"
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
	require.Equal(t, []string{"1 job of queue b waits, and no process takes from it"}, texts(inspect.Status{Queues: queues[1:], Processes: alive}))
	require.Equal(t, []string{"2 queues have jobs and no consumer: a, b"}, texts(inspect.Status{Queues: queues, Processes: alive}))
	gated := []inspect.Queue{{Name: "a", Waiting: 2, NoConsumer: true}}
	require.Equal(t, []string{"No worker is alive; 2 jobs wait at limits"}, texts(inspect.Status{Waiting: 2, Queues: gated}))
	require.Contains(t, texts(inspect.Status{Waiting: 2, HeldByDead: 1, Queues: queues}), "No worker is alive; 7 jobs wait in queues or at limits or for recovery")
	require.Equal(t, []string{"2 jobs of queue a wait, and no process takes from it"}, texts(inspect.Status{Waiting: 2, Queues: gated, Processes: alive}))
	require.Empty(t, texts(inspect.Status{}), "without jobs, no worker is needed")
	require.Len(t, texts(inspect.Status{Queues: queues[:1], ProcessCount: 2000}), 1, "not all processes are known")
	var many []inspect.Queue
	for n := range 36 {
		many = append(many, inspect.Queue{Name: fmt.Sprintf("q%d", n), Size: int64(n + 1), NoConsumer: true}, inspect.Queue{Name: fmt.Sprintf("p%d", n), Paused: true})
	}
	require.Equal(t, []string{"shard b: it is away", "36 queues have jobs and no consumer: q35, q34, q33 and 33 more", "36 queues are paused: p0, p1, p2 and 33 more"},
		texts(inspect.Status{Queues: many, Processes: alive, Problems: []string{"shard b: it is away"}}), "the worst comes first, and each kind once")
	away := strings.Split(strings.Repeat("away,", 12), ",")[:12]
	require.Equal(t, []string{"away", "away", "away", "away", "8 more problems", "No worker is alive; 4 jobs wait in queues"}, texts(inspect.Status{Queues: queues, Problems: away}))
}

func TestTheLargestQueuesCountJobsThatWaitForLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail")
	for n := range maxQueuesShown {
		name := fmt.Sprintf("queue%d", n)
		r.do("SADD", r.keys.Queues(), name)
		r.do("LPUSH", r.keys.Queue(name), payload(name, "Report"))
	}
	r.wait("webhooks:acme", "1", "2")
	require.Contains(t, r.get("/").body, `<tr data-key="mail">`)
}

// Each count of the navigation says what it counts.
func TestCountsOfTheNavigationSayWhatTheyCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.do("SADD", r.keys.Queues(), "mail", "other")
	r.do("LPUSH", r.keys.Queue("mail"), payload("1", "Report"))
	r.wait("webhooks:acme", "2", "3")
	page := r.get("/").body
	for _, text := range []string{`<b title="1 job in queues">1<span class="hide"> job in queues</span></b>`, `title="2 jobs waiting for limits"`} {
		require.Contains(t, page, text)
	}
}

func TestLateQueuesAreMarked(t *testing.T) {
	t.Parallel()
	late := inspect.Queue{Latency: inspect.Seconds{Duration: 2 * time.Minute}}
	require.True(t, late.Late())
	late.Paused = true
	require.False(t, late.Late(), "its jobs wait for the operator")
	require.False(t, inspect.Queue{Latency: inspect.Seconds{Duration: time.Second}}.Late())
}
