package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestWaitTellsAnUnknownJobFromAWaitingOne(t *testing.T) {
	goesOn := func(w *world, jid string) {
		w.Helper()
		require.False(w, w.inspector.isMissing(w.Context(), jid, mostLooked))
	}
	promises(t, map[string]func(w *world){
		"when there is no such job": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("another", trackedField))
			_, err := w.inspector.Wait(w.Context(), "unknown")
			require.ErrorIs(w, err, ErrNoJob)
			require.ErrorContains(w, err, "wait for unknown")
		},
		"in whatever place it waits": func(w *world) {
			w.process("h:1:aa", "mail")
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("queued", trackedField))
			w.do("ZADD", w.keys.Schedule(), "4000000000", sought("later", trackedField))
			w.do("LPUSH", w.keys.Working("mail", "h:1:aa"), sought("taken", trackedField))
			for _, jid := range []string{"queued", "later", "taken"} {
				goesOn(w, jid)
			}
		},
		"and from one with a state, which may move while it is looked for": func(w *world) {
			w.do("HSET", w.keys.Iteration("runs"), lua.FieldState, "running")
			goesOn(w, "runs")
		},
		"on one of several shards": func(w *world) {
			away, a, b := w.fleet()
			b.do("LPUSH", b.keys.Queue("mail"), sought("queued", trackedField))
			b.do("SADD", b.keys.Queues(), "mail")
			b.do("HSET", b.keys.Iteration("done"), lua.FieldState, "done", lua.FieldResult, "7")
			require.False(w, away.isMissing(w.Context(), "unknown", mostLooked), "the shard that is away may have it")

			both := NewFleet(Shard{"a", a.inspector}, Shard{"b", b.inspector})
			require.False(w, both.isMissing(w.Context(), "queued", mostLooked))
			tracked, err := both.Wait(w.Context(), "done")
			require.NoError(w, err)
			require.Equal(w, "7", string(tracked.Result))
			_, err = both.Wait(w.Context(), "unknown")
			require.ErrorIs(w, err, ErrNoJob)
		},
		"and returns the end of one that has ended": func(w *world) {
			w.do("HSET", w.keys.Iteration("done"), lua.FieldState, "done", lua.FieldResult, "7")
			tracked, err := w.inspector.Wait(w.Context(), "done")
			require.NoError(w, err)
			require.Equal(w, "7", string(tracked.Result))
		},
		"and cannot tell among too many jobs": func(w *world) {
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("a", ""), sought("b", ""))
			require.True(w, w.inspector.isMissing(w.Context(), "unknown", 4), "each is read twice")
			require.False(w, w.inspector.isMissing(w.Context(), "unknown", 3))
		},
	})
}
