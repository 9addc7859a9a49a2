package inspect

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// trackedField makes a payload that of a job that is tracked for an hour.
const trackedField = `,"belay_track_ms":3600000`

func TestTrackedJobs(t *testing.T) {
	promises(t, map[string]func(w *world){
		"are found after their end, with state, progress and result": func(w *world) {
			payload := sought("done", trackedField)
			w.do("HSET", w.keys.Iteration("done"), lua.FieldState, "done", lua.FieldProgress, "7/9", lua.FieldResult, `{"Rows":7}`,
				lua.FieldEndedAt, "1700000000000", lua.FieldJob, payload)
			found, err := w.inspector.Find(w.Context(), "done", nil)
			require.NoError(w, err)
			require.Equal(w, PlaceCompleted, found.Place)
			require.Equal(w, "A", found.Class)
			require.Equal(w, "mail", found.Queue)
			require.Equal(w, time.Unix(1_700_000_000, 0).UTC(), found.Since)
			require.JSONEq(w, "[1.0]", string(found.Entry.Args))
			require.Equal(w, &Tracked{
				JID: "done", State: lua.TrackDone, Done: 7, Total: 9, Result: []byte(`{"Rows":7}`), EndedAt: time.Unix(1_700_000_000, 0).UTC(),
			}, found.Tracked)
			results, err := w.inspector.Search(w.Context(), Query{IDs: []string{"done"}})
			require.NoError(w, err)
			require.Len(w, results.Found, 1)
			require.Equal(w, PlaceCompleted, results.Found[0].Place)
			require.Len(w, w.search(Query{IDs: []string{"done"}, Limit: 1}), 1, "and then goes on behind it")
			require.Equal(w, Cancellation{JID: "done", Result: CancelDone, Place: PlaceCompleted, Class: "A", Queue: "mail"}, w.cancel("done")["done"])
			w.do("HSET", w.keys.Iteration("done"), lua.FieldEndedAt, "4000000000000")
			require.Equal(w, CancelMarked, w.cancel("done")["done"].Result, "it may have ended because of the mark")
		},
		"that have ended are read sixteen in a pipeline when they are cancelled": func(w *world) {
			client := &readStates{Client: w.driver}
			w.inspector = w.inspectorOf(client)
			var jids []string
			for n := range 40 {
				jids = append(jids, fmt.Sprintf("done%d", n))
				w.do("HSET", w.keys.Iteration(jids[n]), lua.FieldState, "done", lua.FieldEndedAt, "1700000000000", lua.FieldJob, sought(jids[n], trackedField))
			}
			for _, result := range w.cancel(jids...) {
				require.Equal(w, Cancellation{JID: result.JID, Result: CancelDone, Place: PlaceCompleted, Class: "A", Queue: "mail"}, result)
			}
			require.Equal(w, []int{16, 16, 8}, client.pipelines)
		},
		"are found where they wait or run, with what they have reported": func(w *world) {
			w.process("h:1:aa", "mail")
			w.do("LPUSH", w.keys.Working("mail", "h:1:aa"), sought("runs", trackedField))
			w.do("HSET", w.keys.Iteration("runs"), lua.FieldState, "running", lua.FieldProgress, "7/9")
			found, err := w.inspector.Find(w.Context(), "runs", nil)
			require.NoError(w, err)
			require.Equal(w, PlaceRunning, found.Place)
			require.Equal(w, int64(7), found.Tracked.Done)
		},
		"end for their waiters when an operator cancels, kills or revives them": func(w *world) {
			ended := w.announced()
			state := func(jid string) lua.TrackState {
				read, err := w.keys.ReadTracked(jid).Do(w.Context(), w.driver)
				require.NoError(w, err)
				return read.State
			}
			w.do("SADD", w.keys.Queues(), "mail")
			w.do("LPUSH", w.keys.Queue("mail"), sought("a", trackedField), sought("b", trackedField), sought("plain", ""))
			require.Equal(w, CancelRemoved, w.cancel("a", "plain")["a"].Result)
			require.Equal(w, "a", <-ended)
			require.Equal(w, lua.TrackCancelled, state("a"))
			act := func(home Home, action Action) {
				_, err := w.inspector.Act(w.Context(), Task{Home: home, Action: action, Selection: Selection{IDs: []string{"b"}}}, nil)
				require.NoError(w, err)
			}
			act(Waiting("mail"), Kill)
			require.Equal(w, "b", <-ended)
			require.Equal(w, lua.TrackDead, state("b"))
			act(Dead(), Retry)
			require.Equal(w, lua.TrackWaiting, state("b"))
			require.Empty(w, ended)
			require.Equal(w, int64(0), w.do("EXISTS", w.keys.Iteration("plain")), "of a job that is not tracked nothing is kept")
		},
	})
}

// announced returns the jids of jobs whose end is announced from now on, one after the other. An announcement
// whose script had to be loaded is made again.
func (w *world) announced() <-chan string {
	w.Helper()
	ended := make(chan string, 9)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	listening, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		var last string
		_ = w.driver.Listen(ctx, []string{w.keys.Ended()}, driver.ListenProbe, func() { close(listening) }, func(message string) {
			for _, jid := range lua.EndedOf(message) {
				if jid != last {
					ended <- jid
				}
				last = jid
			}
		})
	}()
	w.Cleanup(func() { cancel(); <-gone })
	<-listening
	return ended
}

// readStates notes how many states of jobs each pipeline reads.
type readStates struct {
	driver.Client
	pipelines []int
}

func (c *readStates) Do(ctx context.Context, calls ...driver.Call) []driver.Reply {
	if slices.Contains(calls[0].Args, lua.FieldJob) {
		c.pipelines = append(c.pipelines, len(calls))
	}
	return c.Client.Do(ctx, calls...)
}
