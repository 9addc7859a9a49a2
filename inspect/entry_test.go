package inspect

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// Runs are counted as a handler's Info counts them, so that an entry, the log and the handler show one number.
func TestFailedRunsOfAnEntry(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]struct {
		attempt, most int
		text          string
	}{
		`"retry":true`:                                   {0, 26, ""},
		`"retry":5,"retry_count":-1`:                     {0, 6, ""},
		`"retry":5,"retry_count":0`:                      {1, 6, "1 of 6"},
		`"retry":5,"retry_count":5`:                      {6, 6, "6 of 6"},
		`"retry":true,"retry_count":1`:                   {2, 26, "2 of 26"},
		`"retry":false,"retry_count":0`:                  {1, 1, "1 of 1"},
		`"retry":true,"retry_for":3600,"retry_count":40`: {41, 0, "41"},
	} {
		entry := newEntry(Retries(), lua.Entry{Bytes: `{"class":"A","jid":"1","queue":"q","args":[],` + fields + `}`})
		require.Equal(t, want.attempt, entry.Attempt, fields)
		require.Equal(t, want.most, entry.MaxAttempts, fields)
		require.Equal(t, want.text, entry.FailedRuns(), fields)
	}
}

// Other programs may write any number into Redis. A time outside of the calendar hides nothing else.
func TestInstantsBeyondTheCalendar(t *testing.T) {
	const payload = `{"class":"A","jid":"1","queue":"q","args":[],"created_at":1e15,"enqueued_at":-1e15,"failed_at":1000000000000000}`
	promises(t, map[string]func(w *world){
		"of jobs are shown as its last second": func(w *world) {
			for score, want := range map[string]time.Time{
				"1795299000000": latest, "1e300": latest, "+inf": latest, "-inf": {}, "1795299000.5": time.UnixMilli(1795299000500).UTC(),
			} {
				w.do("ZADD", w.keys.Retry(), score, payload)
				for entry, err := range w.inspector.Entries(w.Context(), Retries(), 0) {
					require.NoError(w, err)
					_, err = json.Marshal(entry)
					require.NoError(w, err, score)
					require.Equal(w, want, entry.At, score)
					require.Equal(w, []time.Time{latest, {}, latest}, []time.Time{entry.CreatedAt, entry.EnqueuedAt, entry.FailedAt})
				}
			}
		},
		"of locks, too": func(w *world) {
			w.do("ZADD", w.keys.Unique(), "1795299000000000", "digest")
			w.do("SET", w.keys.Lock("digest"), " jid\nA\n1795299000000000\n")
			locks := w.locks()
			require.Len(w, locks, 1)
			_, err := json.Marshal(locks)
			require.NoError(w, err)
			require.Equal(w, latest, locks[0].TakenAt)
		},
		"of processes and of what they run as well": func(w *world) {
			w.do("SADD", w.keys.Processes(), "vm:7:aa")
			w.do("HSET", w.keys.Process("vm:7:aa"), "info", `{"hostname":"vm","started_at":1e300}`, "busy", "1", "beat", "1e300")
			w.do("HSET", w.keys.Work("vm:7:aa"), "p1", `{"queue":"q","run_at":1e300,"overdue":1e300,"payload":`+payload+`}`)
			status := w.status()
			_, err := json.Marshal(status)
			require.NoError(w, err)
			process := status.Processes[0]
			require.Equal(w, []time.Time{latest, latest}, []time.Time{process.StartedAt, process.Running[0].Since})
			require.Equal(w, maxOverdue*time.Second, process.Running[0].Overdue.Duration)
		},
	})
}
