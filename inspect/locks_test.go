package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// unique pushes a job that holds the lock of digest, or is refused, and answers who has it then.
func (w *world) unique(digest, jid string, hold time.Duration) (holder string) {
	w.Helper()
	push := w.keys.PushUnique(nil, []lua.UniqueJob{{
		Queue: "q", Scheduled: lua.Scheduled{Job: jid}, RunLater: true,
		Lock: &lua.Lock{Digest: digest, Owner: lua.OwnerOf(jid, "Report"), Hold: hold},
	}})
	answer, err := push.Do(w.Context(), w.driver)
	require.NoError(w, err)
	return answer.Holders[0]
}

func (w *world) locks() []Lock {
	w.Helper()
	var all []Lock
	for lock, err := range w.inspector.Locks(w.Context()) {
		require.NoError(w, err)
		all = append(all, lock)
	}
	return all
}

func TestLocks(t *testing.T) {
	promises(t, map[string]func(w *world){
		"are shown with who holds them, for how long, and until when": func(w *world) {
			require.Empty(w, w.locks())
			w.unique("later", "b", 2*time.Hour)
			w.unique("sooner", "a", time.Hour)
			require.Equal(w, "a", w.unique("sooner", "c", time.Hour))
			w.do("SETRANGE", w.keys.Lock("later"), "0", "s")
			w.unique("later", "d", time.Hour)
			locks := w.locks()
			require.Len(w, locks, 2)
			for i, ttl := range []time.Duration{time.Hour, 2 * time.Hour} {
				require.InDelta(w, ttl.Seconds(), locks[i].TTL.Seconds(), 60)
				require.WithinRange(w, locks[i].TakenAt, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
				require.Less(w, locks[i].Age.Duration, time.Minute)
				locks[i].TTL, locks[i].Age, locks[i].TakenAt = Seconds{}, Seconds{}, time.Time{}
			}
			require.Equal(w, []Lock{
				{Digest: "sooner", JID: "a", Class: "Report"}, {Digest: "later", JID: "b", Class: "Report", Started: true, Dirty: true},
			}, locks)
			require.Equal(w, int64(2), w.status().Duplicates)
		},
		"that have lapsed are not shown, nor what lies where a lock should": func(w *world) {
			w.unique("a", "a", time.Hour)
			w.unique("gone", "b", time.Hour)
			w.unique("odd", "c", time.Hour)
			w.do("DEL", w.keys.Lock("gone"))
			w.do("DEL", w.keys.Lock("odd"))
			w.do("RPUSH", w.keys.Lock("odd"), "x")
			w.unique("text", "d", 2*time.Hour)
			w.do("SET", w.keys.Lock("text"), "what is this")
			w.do("ZADD", w.keys.Unique(), "1", "long ago")
			locks := w.locks()
			require.Len(w, locks, 2)
			require.Equal(w, "a", locks[0].Digest)
			require.Equal(w, Lock{Digest: "text"}, locks[1])
			count, err := w.inspector.LockCount(w.Context())
			require.NoError(w, err)
			require.Equal(w, int64(4), count)
		},
		"many are read page by page, each once": func(w *world) {
			seen := map[string]bool{}
			for n := range 2*lua.MostItems + 7 {
				w.unique(fmt.Sprint(n), "a", time.Hour)
			}
			for _, lock := range w.locks() {
				require.False(w, seen[lock.Digest])
				seen[lock.Digest] = true
			}
			require.Len(w, seen, 2*lua.MostItems+7)
		},
		"are released once, whoever holds them": func(w *world) {
			w.unique("d", "a", time.Hour)
			lock, held, err := w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err)
			require.True(w, held)
			require.Equal(w, "a", lock.JID)
			_, held, err = w.inspector.ReleaseLock(w.Context(), "d")
			require.NoError(w, err)
			require.False(w, held)
			require.Empty(w, w.unique("d", "b", time.Hour))
			w.do("DEL", w.keys.Lock("d"))
			w.do("RPUSH", w.keys.Lock("d"), "x")
			_, _, err = w.inspector.ReleaseLock(w.Context(), "d")
			require.ErrorContains(w, err, "WRONGTYPE")
			require.True(w, strings.HasPrefix(err.Error(), "release lock d: "))
		},
	})
}
