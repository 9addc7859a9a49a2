package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAQueueHasAConsumerWhereALivingProcessTakesFromIt(t *testing.T) {
	t.Parallel()
	worker := Process{State: StateAlive, Queues: []string{"default"}}
	marked := func(queue Queue, processes ...Process) bool {
		s := Status{Queues: []Queue{queue}, Processes: processes, ProcessCount: int64(len(processes))}
		s.addNoConsumer()
		return s.Queues[0].NoConsumer
	}
	mail := Queue{Name: "mail", Size: 2}
	require.True(t, marked(mail))
	require.True(t, marked(mail, worker))
	taker := worker
	taker.Queues = []string{"default", "mail"}
	require.False(t, marked(mail, worker, taker))
	taker.State = StateLapsed
	require.True(t, marked(mail, worker, taker))
	require.False(t, marked(mail, worker, Process{State: StateAlive}), "one that has not said its queues yet")
	require.True(t, marked(Queue{Name: "mail", Quarantined: 1}, worker), "a quarantined job waits as well")
	require.True(t, marked(Queue{Name: "mail", HeldByDead: 1}, worker), "and so will one that is recovered")
	require.False(t, marked(Queue{Name: "mail"}, worker))

	more := Status{Queues: []Queue{mail}, Processes: []Process{worker}, ProcessCount: 2}
	more.addNoConsumer()
	require.False(t, more.Queues[0].NoConsumer, "one process is not listed")
}

// A job whose process lapsed is counted, also where its queue has left the list or it ran alone.
func TestJobsOfLapsedWorkersAreCounted(t *testing.T) {
	promises(t, map[string]func(w *world){
		"by their queues": func(w *world) {
			lapsed, alive := "h:1:aa", "h:2:bb"
			for _, identity := range []string{lapsed, alive} {
				w.do("HSET", w.keys.Record(identity), "queues", `["mail","gone"]`, "beat_ms", "500", "ttl_ms", "2000", "concurrency", "3")
				w.do("LPUSH", w.keys.Working("mail", identity), "a", "b")
				w.do("LPUSH", w.keys.Working("gone", identity), "c")
			}
			w.do("LPUSH", w.keys.QuarantineRun(lapsed), `{"class":"A","jid":"j","args":[],"queue":"mail"}`)
			w.do("ZADD", w.keys.Alive(), "1", lapsed, "9999999999999", alive)
			w.do("SADD", w.keys.Queues(), "mail")
			status := w.status()
			require.Empty(w, status.Problems)
			require.Equal(w, int64(4), status.HeldByDead)
			require.Len(w, status.Queues, 2)
			require.Equal(w, "gone", status.Queues[0].Name)
			require.Equal(w, int64(1), status.Queues[0].HeldByDead)
			require.Equal(w, int64(3), status.Queues[1].HeldByDead)
		},
	})
}
