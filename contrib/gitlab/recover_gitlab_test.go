package gitlab

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// recover sends the script's call, which must not fail.
func (w *world) recover(l list, orphans lua.Orphans) lua.Recovered {
	w.Helper()
	answer, err := w.keys.recover(l, orphans, w.today).Do(w.Context(), w.client)
	require.NoError(w, err)
	return answer
}

// waiting returns the jobs of queue q in the order in which they are taken.
func (w *world) waiting() []string {
	w.Helper()
	jobs := w.list(w.keys.Queue("q"))
	slices.Reverse(jobs)
	return jobs
}

// lock is the lock of the job a.
var lock = &lua.Lock{Digest: "d", Owner: lua.OwnerOf("a", "Mail"), Hold: time.Minute}

// owner returns the jid of the job that holds the lock, which must have a TTL; "" for none.
func (w *world) owner() string {
	w.Helper()
	value, held := w.do("GET", w.keys.Lock(lock.Digest)).(string)
	if !held {
		return ""
	}
	require.Positive(w, w.do("PTTL", w.keys.Lock(lock.Digest)))
	holder, ok := lua.HolderOf(value)
	require.True(w, ok)
	require.Equal(w, "Mail", holder.Class)
	return holder.JID
}

func TestRecoverGitLab(t *testing.T) {
	page := lua.Orphans{Queue: "q", Entries: []lua.Orphan{{Old: "c", New: "c+"}, {Old: "b", New: "b+"}, {Old: "gone", New: "gone+"}, {Old: "a", New: "a+"}}}
	promises(t, allServers(), map[string]func(w *world){
		"moves the entries that are in the list to the head of the queue, in order": func(w *world) {
			held := w.held("q", "h:1:ab")
			w.do("RPUSH", held.key, "c", "b", "a", "rest")
			w.do("LPUSH", w.keys.Queue("q"), "waits")
			require.Equal(w, lua.Recovered{State: lua.StateDead, Left: 1, Moved: 3}, w.recover(held, page))
			require.Equal(w, []string{"a+", "b+", "c+", "waits"}, w.waiting())
			require.Equal(w, []string{"rest"}, w.list(held.key))
			w.unchanged(func() {
				require.Equal(w, lua.Recovered{State: lua.StateDead, Left: 1}, w.recover(held, page))
			})
		},
		"writes nothing while any process that the name can mean has a heartbeat": func(w *world) {
			held := w.held("q", "fe80::1:7:ab")
			w.do("RPUSH", held.key, "c", "b", "a")
			for _, beat := range held.heartbeats {
				w.do("SET", beat, "1", "EX", "60")
				w.unchanged(func() {
					require.Equal(w, lua.Recovered{State: lua.StateAlive}, w.recover(held, page))
				})
				w.do("DEL", beat)
			}
		},
		"frees the lock of a job that dies and keeps that of one that goes back": func(w *world) {
			held := w.held("q", "h:1:ab")
			unique := lua.NewJob{Queue: "q", Job: "a", Lock: lock}
			pushed, err := w.keys.PushUnique(nil, []lua.NewJob{unique}).Do(w.Context(), w.client)
			require.NoError(w, err)
			require.Equal(w, lua.PushStored, pushed.Word)
			w.do("LMOVE", w.keys.Queue("q"), held.key, "RIGHT", "LEFT")
			moved := func(old string, home lua.Home) lua.Recovered {
				return w.recover(held, lua.Orphans{Queue: "q", Entries: []lua.Orphan{{Old: old, New: old + "+", Home: home, Owned: lua.Owned{Lock: lock}}}})
			}
			require.Equal(w, lua.Recovered{State: lua.StateDead, Moved: 1}, moved("a", lua.HomeQueue))
			require.Equal(w, "a", w.owner())
			w.do("LMOVE", w.keys.Queue("q"), held.key, "RIGHT", "LEFT")
			require.Equal(w, lua.Recovered{State: lua.StateDead, Moved: 1}, moved("a+", lua.HomeDead))
			require.Empty(w, w.owner())
			require.Empty(w, w.texts("ZRANGE", w.keys.Unique(), "0", "-1"), "a lock without a holder is not listed")
			require.Equal(w, []string{"a++"}, w.texts("ZRANGE", w.keys.Dead(), "0", "-1"))
			require.Equal(w, "1", w.do("GET", w.keys.Failed()))
		},
	})
}
