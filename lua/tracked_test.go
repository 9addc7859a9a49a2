package lua

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// tracked is a job that is tracked for a minute.
func tracked(t testing.TB, jid string) *job.Job {
	t.Helper()
	extra := []job.Edit{job.SetInt(job.FieldTrack, 60_000)}
	parsed, err := job.Parse(job.Draft{Class: "A", Queue: "q", JID: jid, ArgsJSON: "[]", CreatedAt: time.Unix(1, 0), Extra: extra}.Encode())
	require.NoError(t, err)
	return parsed
}

// stateOf is what is known about a tracked job, without times.
func (w *world) stateOf(jid string) TrackedJob {
	w.Helper()
	read := ask(w, w.keys.ReadTrackedJob(jid))
	read.EndedAt = time.Time{}
	return read
}

func TestTrackedJobs(t *testing.T) {
	keep(t,
		promise{"that_a_crash_moves_to_the_dead_set_are_dead_and_others_are_as_they_were", func(w *world) {
			dead, lives := tracked(w.TB, "dead"), tracked(w.TB, "lives")
			identity := w.hold(dead.Raw(), lives.Raw(), "plain")
			w.lapse(identity)
			answer := ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{
				{Old: "plain", New: "plain", Home: HomeDead},
				{Old: dead.Raw(), New: dead.Raw(), Home: HomeDead, Owned: Owned{State: EndedState(dead, TrackDead, time.Unix(2, 0))}},
				{Old: lives.Raw(), New: lives.Raw()},
			}}}, w.today))
			require.Equal(w, 3, answer.Moved)
			require.Equal(w, TrackedJob{Tracked: Tracked{JID: "dead", State: TrackDead}}, w.stateOf("dead"))
			require.Equal(w, TrackWaiting, w.stateOf("lives").State)
			require.InDelta(w, KeepState.Seconds(), w.number("TTL", w.keys.Iteration("dead")), 60, "as long as its cursor")
		}},
		promise{"that_die_have_the_error_of_their_payload_cut_to_its_limit", func(w *world) {
			long := strings.Repeat("é", MaxTrackedError)
			failed, err := job.Parse(tracked(w.TB, "j").Patch(job.SetString("error_class", "E"), job.SetString("error_message", long)))
			require.NoError(w, err)
			w.dueAt(w.keys.Retry(), -time.Hour, failed.Raw())
			kill := []ActGroup{{Destination: DestinationDead, Jobs: []Promotion{{Old: failed.Raw(), Owned: Owned{State: EndedState(failed, TrackDead, time.Unix(2, 0))}}}}}
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, kill)))
			require.Equal(w, Tracked{JID: "j", State: TrackDead, ErrorClass: "E", ErrorMessage: long[:MaxTrackedError]}, w.stateOf("j").Tracked)
		}},
		promise{"that_are_not_there_any_more_are_as_they_were", func(w *world) {
			gone := tracked(w.TB, "gone")
			identity := w.hold("other")
			w.lapse(identity)
			orphan := Orphan{Old: gone.Raw(), New: gone.Raw(), Home: HomeDead, Owned: Owned{State: EndedState(gone, TrackDead, time.Unix(2, 0))}}
			require.Zero(w, ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{orphan}}}, w.today)).Moved)
			groups := []ActGroup{{Destination: DestinationNone, Jobs: []Promotion{{Old: gone.Raw(), Owned: Owned{State: EndedState(gone, TrackCancelled, time.Unix(2, 0))}}}}}
			require.Equal(w, []int{0}, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, groups)).Gone)
			require.Equal(w, TrackWaiting, w.stateOf("gone").State)
		}},
		promise{"that_an_operator_deletes_kills_or_revives_say_so", func(w *world) {
			a, b := tracked(w.TB, "a"), tracked(w.TB, "b")
			w.dueAt(w.keys.Retry(), -time.Hour, a.Raw(), b.Raw(), "plain")
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, []ActGroup{
				{Destination: DestinationNone, Jobs: []Promotion{{Old: "plain"}, {Old: a.Raw(), Owned: Owned{State: EndedState(a, TrackCancelled, time.Unix(2, 0))}}}},
				{Destination: DestinationDead, Jobs: []Promotion{{Old: b.Raw(), Owned: Owned{State: EndedState(b, TrackDead, time.Unix(2, 0))}}}},
			})))
			require.Equal(w, TrackedJob{Tracked{JID: "a", State: TrackCancelled}, a.Raw()}, w.stateOf("a"))
			require.InDelta(w, 60, w.number("TTL", w.keys.Iteration("a")), 2)
			require.Equal(w, TrackDead, w.stateOf("b").State)
			revive := []ActGroup{{Destination: DestinationQueue, Queue: "q", Jobs: []Promotion{{Old: b.Raw(), New: b.Raw(), Owned: Owned{State: RevivedState(b)}}}}}
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, revive)))
			require.Equal(w, TrackWaiting, w.stateOf("b").State)
			require.Empty(w, w.hash(w.keys.Iteration("b"))[FieldEndedAt])
		}},
		promise{"while_it_may_run_it_has_a_cursor_that_sidekiq_can_read", func(w *world) {
			j := tracked(w.TB, "j")
			identity := w.hold(j.Raw())
			cursor := func() string { return w.hash(w.keys.Iteration("j"))[FieldCursor] }
			state := StateOf(j)
			state.Version, state.Keep, state.Fields = 1, KeepState, []string{FieldState, string(TrackRunning)}
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", j.Raw(), false, state)))
			require.Equal(w, "null", cursor(), "Sidekiq's loader raises without one")
			state.Version, state.Fields = 2, []string{FieldCursor, "7"}
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", j.Raw(), false, state)))
			state.Version, state.Fields = 3, []string{FieldProgress, "1/2"}
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", j.Raw(), false, state)))
			require.Equal(w, "7", cursor())
			settled := end("q", j.Raw(), job.Requeued())
			settled.State = RevivedState(j)
			require.Equal(w, allSettled, w.settle(identity, 1, settled))
			require.Equal(w, "7", cursor())
		}},
		promise{"the_end_takes_the_cursor_along_and_a_save_after_it_changes_nothing", func(w *world) {
			j := tracked(w.TB, "j")
			identity := w.hold(j.Raw())
			state := StateOf(j)
			state.Version, state.Keep, state.Fields = 1, KeepState, []string{FieldCursor, "7", FieldState, string(TrackRunning)}
			require.Equal(w, SaveSaved, ask(w, w.keys.Save(identity, "q", j.Raw(), false, state)))
			settled := end("q", j.Raw(), job.Done())
			settled.State = EndedState(j, TrackDone, time.Unix(2, 0))
			w.settle(identity, 1, settled)
			require.Equal(w, TrackedJob{Tracked{JID: "j", State: TrackDone}, j.Raw()}, w.stateOf("j"))
			require.NotContains(w, w.hash(w.keys.Iteration("j")), FieldCursor)
			state.Version = 9
			w.unchanged(func() { require.Equal(w, SaveLost, ask(w, w.keys.Save(identity, "q", j.Raw(), false, state))) })
		}},
	)
}

// What is guessed from the ends of a payload is the job's own, or nothing.
func TestDeadUnread(t *testing.T) {
	t.Parallel()
	const names = `"class":"A","jid":"%s","created_at":1.0`
	own, other := strings.Replace(names, "%s", "own", 1), strings.Replace(names, "%s", "other", 1)
	const track = `{"retry":true,"queue":"q","belay_track_ms":60000,`
	large := strings.Repeat("x", 2*ends)
	for name, test := range map[string]struct {
		payload string
		jid     string
	}{
		"Belay's own":                   {tracked(t, "own").Raw(), "own"},
		"with large arguments":          {track + `"args":["` + large + `"],` + own + `}`, "own"},
		"with the names of another job": {track + `"args":["` + large + `",{` + other + `}],` + own + `}`, "own"},
		"with those in a text":          {track + `"args":["` + large + `"],` + own + `,"error_message":"{` + strings.ReplaceAll(other, `"`, `\"`) + `}"}`, "own"},
		"with bytes that no JSON has":   {track + "\"args\":[\"\xff\"]," + own + `}`, "own"},
		"with much behind the names":    {track + `"args":[{` + other + `}],` + own + `,"error_message":"` + large + `"}`, ""},
		"not tracked":                   {`{"retry":true,"args":["` + large + `"],` + own + `}`, ""},
		"not tracked, with one that is": {`{"retry":true,"args":[{"belay_track_ms":60000,"x":"` + large + `"}],` + own + `}`, ""},
		"written by another program":    {`{"class":"A","belay_track_ms":60000,"args":["` + large + `",{` + other + `}],"jid":"own"}`, ""},
		"cut off":                       {track + `"args":["` + large, ""},
		"shorter than any":              {`{`, ""},
	} {
		state := DeadUnread(test.payload, test.payload, "E", "damaged", time.Unix(2, 0))
		if test.jid == "" {
			require.Nil(t, state, name)
			continue
		}
		require.NotNil(t, state, name)
		require.Equal(t, test.jid+" 1.0", state.JID+" "+state.Created, name)
		require.Equal(t, ErrorFields("E", "damaged"), state.Fields[len(state.Fields)-4:], name)
	}
}
