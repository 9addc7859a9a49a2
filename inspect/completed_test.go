package inspect

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// completes stores what a tracked job leaves at its end, at a second.
func (w *world) completes(at int, jid, payload string, fields ...string) {
	w.Helper()
	w.do("ZADD", w.keys.Completed(), strconv.Itoa(at), jid)
	state := []string{"HSET", w.keys.Iteration(jid), lua.FieldState, "done", lua.FieldEndedAt, strconv.Itoa(1000 * at), lua.FieldJob, payload}
	w.do(append(state, fields...)...)
}

func TestCompletedJobs(t *testing.T) {
	listed := func(w *world, query Query) (jids []string) {
		query.Places = []Place{PlaceCompleted}
		for found, err := range w.inspector.Jobs(w.Context(), query) {
			require.NoError(w, err)
			jids = append(jids, found.JID)
		}
		return jids
	}
	promises(t, map[string]func(w *world){
		"are listed with how they ended, the last one first": func(w *world) {
			w.completes(1_700_000_000, "a", sought("a", trackedField), lua.FieldResult, `{"Rows":7}`, lua.FieldBeganAt, "1699999998500")
			w.completes(1_700_000_009, "b", sought("b", trackedField+`,"error_class":"Earlier"`), lua.FieldState, "discarded", lua.FieldErrorClass, "E", lua.FieldErrorMessage, "no host")
			var entries []Entry
			for entry, err := range w.inspector.Entries(w.Context(), Completed(), 0) {
				require.NoError(w, err)
				entries = append(entries, entry)
			}
			require.Len(w, entries, 2)
			require.Equal(w, []string{"b", "a"}, []string{entries[0].ID, entries[1].ID})
			require.Equal(w, []string{"completed", "A", "mail"}, []string{entries[1].In, entries[1].Class, entries[1].Queue})
			require.Equal(w, time.Unix(1_700_000_000, 0).UTC(), entries[1].At)
			require.JSONEq(w, `{"Rows":7}`, string(entries[1].Tracked.Result))
			require.Equal(w, "done in 1.5s", entries[1].Outcome(time.Duration.String))
			require.Equal(w, "discarded", entries[0].Outcome(time.Duration.String))
			require.Equal(w, []string{"E", "no host"}, []string{entries[0].ErrorClass, entries[0].ErrorMessage}, "not that of an earlier run")
			size, err := w.inspector.Size(w.Context(), Completed())
			require.NoError(w, err)
			require.Equal(w, 2, size)
			require.Equal(w, []string{"b"}, listed(w, Query{Filter: Filter{ErrorClass: "E"}}))
			require.Equal(w, []string{"b"}, listed(w, Query{Filter: Filter{Text: "NO HOST"}}))
			require.Equal(w, []string{"b", "a"}, listed(w, Query{Filter: Filter{Class: "A", Queue: "mail"}}))
			require.Empty(w, listed(w, Query{Filter: Filter{Class: "B"}}))
			results, err := w.inspector.Search(w.Context(), Query{Places: []Place{PlaceCompleted}, Limit: 1})
			require.NoError(w, err)
			require.NotEmpty(w, results.Next)
			require.Equal(w, lua.TrackDiscarded, results.Found[0].Tracked.State)
			results, err = w.inspector.Search(w.Context(), Query{Places: []Place{PlaceCompleted}, Cursor: results.Next})
			require.NoError(w, err)
			require.Equal(w, "a", results.Found[0].JID)
		},
		"of which nothing is kept any more are left out": func(w *world) {
			var want []string
			for n := range 600 { // of one script, so they ended at one time
				jid := fmt.Sprintf("j%03d", 599-n)
				if w.do("ZADD", w.keys.Completed(), "1700000000", jid); n%100 == 99 {
					w.completes(1_700_000_000, jid, sought(jid, trackedField))
					want = append(want, jid)
				}
			}
			w.do("HSET", w.keys.Iteration("j310"), lua.FieldState, "running")
			w.do("HSET", w.keys.Iteration("j301"), lua.FieldState, "dead", lua.FieldEndedAt, "1700000000000")
			require.ElementsMatch(w, want, listed(w, Query{}))
			require.ElementsMatch(w, want, listed(w, Query{Filter: Filter{Class: "A"}}))
		},
		"are in a search that names their place, and in no other": func(w *world) {
			w.completes(1_700_000_000, "a", sought("a", trackedField))
			w.do("ZADD", w.keys.Dead(), "1", sought("b", ""))
			results, err := w.inspector.Search(w.Context(), Query{})
			require.NoError(w, err)
			require.Len(w, results.Found, 1)
			require.Equal(w, "b", results.Found[0].JID)
			results, err = w.inspector.Search(w.Context(), Query{Places: Places()})
			require.NoError(w, err)
			require.Len(w, results.Found, 2)
		},
		"cannot be moved": func(w *world) {
			w.completes(1_700_000_000, "a", sought("a", trackedField))
			for _, action := range []Action{Retry, Kill, Delete, Move, Reschedule} {
				_, err := w.inspector.Act(w.Context(), Task{Home: Completed(), Action: action, To: "q", Selection: Selection{All: true}}, nil)
				require.Error(w, err, action)
			}
			require.Equal(w, []string{"a"}, listed(w, Query{}))
		},
	})
}
