package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

func TestStatus(t *testing.T) {
	promises(t, map[string]func(w *world){
		"an empty Redis is an empty page": func(w *world) {
			status := w.status()
			require.WithinDuration(w, time.Now(), status.At, time.Minute)
			status.At = time.Time{}
			text, err := json.Marshal(status)
			require.NoError(w, err)
			require.JSONEq(w, `{"at":"0001-01-01T00:00:00Z","processed":0,"failed":0,"duplicates":0,"enqueued":0,"quarantined":0,"held_by_dead":0,"waiting":0,"scheduled":0,"retries":0,
				"dead":0,"batches":0,"queue_count":0,"queues":[],"process_count":0,"processes":[],"problems":[]}`, string(text))
		},
		"counters, sets and queues": func(w *world) {
			w.do("SET", w.keys.Processed(), "12")
			w.do("SET", w.keys.Failed(), "3")
			w.do("ZADD", w.keys.Schedule(), "1", "a")
			w.do("ZADD", w.keys.Retry(), "1", "a", "2", "b")
			w.do("ZADD", w.keys.Dead(), "1", "a", "2", "b", "3", "c")
			w.do("SADD", w.keys.Queues(), "mail", "default", "empty")
			w.do("SADD", w.keys.Paused(), "mail")
			enqueued := func(ago time.Duration, unit job.TimeUnit) string {
				return job.Draft{Class: "A", Queue: "mail", EnqueuedAt: time.Now().Add(-ago), Unit: unit}.Encode()
			}
			w.do("LPUSH", w.keys.Queue("mail"), enqueued(time.Hour, job.Seconds), enqueued(time.Minute, job.Seconds))
			w.do("LPUSH", w.keys.Queue("default"), enqueued(2*time.Hour, job.Millis))
			quarantined := fmt.Sprintf(`{"class":"A","jid":"1","args":[],"interrupted_count":2,"interrupted_at":%d}`, time.Now().Add(-3*time.Hour).Unix())
			w.do("LPUSH", w.keys.Quarantine("mail"), quarantined)
			status := w.status()
			require.Empty(w, status.Problems)
			require.Equal(w, []int64{12, 3, 3, 1, 1, 2, 3, 3}, []int64{status.Processed, status.Failed, status.Enqueued,
				status.Quarantined, status.Scheduled, status.Retries, status.Dead, status.QueueCount})
			require.Len(w, status.Queues, 3)
			for n, want := range []Queue{{Name: "default", Size: 1, NoConsumer: true}, {Name: "empty"}, {Name: "mail", Size: 2, Paused: true, Quarantined: 1, NoConsumer: true}} {
				got := status.Queues[n]
				hours := []float64{2, 0, 1}[n]
				require.InDelta(w, hours, got.Latency.Hours(), 0.01)
				if want.Quarantined > 0 {
					require.InDelta(w, 3, got.QuarantinedFor.Hours(), 0.01)
				}
				got.Latency, got.QuarantinedFor = Seconds{}, Seconds{}
				require.Equal(w, want, got)
			}
			size, err := w.inspector.Size(w.Context(), Waiting("mail"))
			require.NoError(w, err)
			require.Equal(w, 2, size)
		},
		"keys of other types hide nothing else": func(w *world) {
			w.do("LPUSH", w.keys.Processed(), "x")
			w.do("SET", w.keys.Failed(), "many")
			w.do("SADD", w.keys.Queues(), "good", "odd", "garbage")
			w.do("SET", w.keys.Queue("odd"), "x")
			w.do("LPUSH", w.keys.Queue("garbage"), "{")
			w.do("LPUSH", w.keys.Queue("good"), job.Draft{Class: "A"}.Encode())
			status := w.status()
			require.Len(w, status.Problems, 4)
			for _, named := range []string{"processed", "failed", "odd", "garbage"} {
				require.Contains(w, strings.Join(status.Problems, "\n"), named)
			}
			require.Len(w, status.Queues, 3)
			require.Equal(w, int64(2), status.Enqueued)
			require.ErrorContains(w, status.QueuesErr, "queue odd: WRONGTYPE")
			require.NotContains(w, status.QueuesErr.Error(), "garbage", "an answer that is odd is no refusal")
			require.NoError(w, status.ProcessesErr)
		},
		"keys that are not lists differ from empty lists": func(w *world) {
			w.do("SET", w.keys.Queues(), "x")
			status := w.status()
			require.ErrorContains(w, status.QueuesErr, "WRONGTYPE")
			require.Len(w, status.Problems, 1, "and once")
			w.do("SET", w.keys.Alive(), "x")
			require.ErrorContains(w, w.status().ProcessesErr, "alive: WRONGTYPE")
		},
		"lists a page of many queues and counts them all": func(w *world) {
			names := []string{"SADD", w.keys.Queues()}
			for n := range maxShown + 50 {
				names = append(names, fmt.Sprintf("queue %d", n))
			}
			w.do(names...)
			for n := range 50 {
				w.do("LPUSH", w.keys.Queue(fmt.Sprintf("queue %d", 21*n)), job.Draft{Class: "A"}.Encode())
			}
			w.do("LPUSH", w.keys.Quarantine("queue 7"), job.Draft{Class: "A"}.Encode())
			w.do("SADD", w.keys.Paused(), "queue 999")
			before := w.status()
			require.Empty(w, before.Problems)
			for range 3 {
				status := w.status()
				require.Len(w, status.Queues, maxShown)
				require.Equal(w, []int64{maxShown + 50, 50, 1}, []int64{status.QueueCount, status.Enqueued, status.Quarantined})
				require.True(w, slices.Equal(namesOf(before), namesOf(status)), "the same queues each time")
			}
			require.True(w, slices.Contains(namesOf(before), "queue 987"), "it has a job")
			require.False(w, slices.Contains(namesOf(before), "queue 999"), "it has none, and a late name")
			queue, listed, err := w.inspector.Queue(w.Context(), "queue 999", before)
			require.NoError(w, err)
			require.True(w, listed)
			require.Equal(w, Queue{Name: "queue 999", Paused: true}, queue)
			queue, listed, err = w.inspector.Queue(w.Context(), "queue 987", before)
			require.NoError(w, err)
			require.True(w, listed)
			require.Equal(w, []any{int64(1), true}, []any{queue.Size, queue.NoConsumer})
			_, listed, err = w.inspector.Queue(w.Context(), "never", before)
			require.NoError(w, err)
			require.False(w, listed)
		},
		"counts the jobs of dead workers whose queues are not listed": func(w *world) {
			names := []string{"SADD", w.keys.Queues()}
			for n := range maxShown {
				names = append(names, fmt.Sprint("a", n))
			}
			w.do(names...)
			_, err := w.keys.Register("h:1:aa", lua.Record{Queues: []string{"z"}, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
			require.NoError(w, err)
			w.do("LPUSH", w.keys.Working("z", "h:1:aa"), job.Draft{Class: "A"}.Encode())
			w.do("ZADD", w.keys.Alive(), "1", "h:1:aa")
			w.do("SADD", w.keys.Queues(), "z")
			status := w.status()
			require.Equal(w, int64(1), status.HeldByDead)
			require.False(w, slices.Contains(namesOf(status), "z"))
			queue, _, err := w.inspector.Queue(w.Context(), "z", status)
			require.NoError(w, err)
			require.Equal(w, Queue{Name: "z", HeldByDead: 1, NoConsumer: true}, queue)
		},
	})
}

func namesOf(s Status) (names []string) {
	for _, queue := range s.Queues {
		names = append(names, queue.Name)
	}
	return names
}

func TestStatusFailsWhenRedisIsAway(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	server.Kill()
	d := adapters.All["go-redis"](t, server.URL())
	_, err := inspectorOf(t, d, "").Status(t.Context())
	require.ErrorContains(t, err, "read the time")
	_, err = inspectorOf(t, d, "").Working(t.Context())
	require.Error(t, err)
}

// A page of zeros would be taken for an empty Redis.
func TestStatusFailsWhenNothingMayBeRead(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t)
	_, err := server.Do(t.Context(), "ACL", "SETUSER", "watcher", "on", ">secret", "+time", "+ping", "+hello", "+select", "+client")
	require.NoError(t, err)
	for _, url := range []string{"redis://" + server.Addr() + "/99", "redis://watcher:secret@" + server.Addr() + "/0"} {
		for name, open := range adapters.All {
			_, err := inspectorOf(t, open(t, url), "").Status(t.Context())
			require.Error(t, err, "%s %s", name, url)
		}
	}
}

func TestSecondsAreANumberInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Queue{Name: "q", Latency: Seconds{1500 * time.Millisecond}})
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"q","size":0,"latency_seconds":1.5,"paused":false,"quarantined":0,"quarantined_seconds":0,"waiting":0,"held_by_dead":0,"no_consumer":false,"runs_per_second":0,"failed_per_second":0}`, string(text))
	var back Queue
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, 1500*time.Millisecond, back.Latency.Duration)
}

func TestWorking(t *testing.T) {
	promises(t, map[string]func(w *world){
		"lists what each process answers for": func(w *world) {
			for identity, queues := range map[string][]string{"h:1:aa": {"a", "b"}, "h:2:bb": {"b"}} {
				_, err := w.keys.Register(identity, lua.Record{Queues: queues, Beat: time.Second, TTL: time.Minute}).Do(w.Context(), w.driver)
				require.NoError(w, err)
			}
			w.do("LPUSH", w.keys.Working("b", "h:1:aa"), "x", "y")
			w.do("SET", w.keys.Working("b", "h:2:bb"), "no list")
			lists, err := w.inspector.Working(w.Context())
			require.NoError(w, err)
			require.ElementsMatch(w, []WorkingList{
				{Identity: "h:1:aa", Queue: "a", Size: 0}, {Identity: "h:1:aa", Queue: "b", Size: 2}, {Identity: "h:2:bb", Queue: "b", Size: -1},
			}, lists)
		},
		"is empty without processes": func(w *world) {
			lists, err := w.inspector.Working(w.Context())
			require.NoError(w, err)
			require.Empty(w, lists)
		},
	})
}
