package lua

import (
	"slices"
	"strconv"
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
		promise{"that_are_completed_are_listed_by_their_end_and_others_are_not", func(w *world) {
			done, dead, again, lives := tracked(w.TB, "done"), tracked(w.TB, "dead"), tracked(w.TB, "again"), tracked(w.TB, "lives")
			identity := w.hold(done.Raw(), dead.Raw(), again.Raw(), lives.Raw(), "plain")
			ended := func(j *job.Job, outcome job.Outcome, as TrackState) Settled {
				settled := end("q", j.Raw(), outcome)
				settled.State = EndedState(j, as, time.Unix(2, 0))
				return settled
			}
			requeued := end("q", lives.Raw(), job.Requeued())
			requeued.State = RevivedState(lives)
			old := strconv.FormatInt(time.Now().Add(-2*time.Minute).Unix(), 10)
			w.redis("ZADD", w.keys.Completed(), old, "expired", old, "again", "5", "older")
			require.Equal(w, allSettled, w.settle(identity, 1, ended(done, job.Done(), TrackDone), ended(dead, job.Died(dead.Raw()), TrackDead),
				ended(again, job.Discarded(true), TrackDiscarded), requeued, end("q", "plain", job.Done())))
			require.Equal(w, []string{"again", "done"}, slices.Sorted(slices.Values(w.sorted(w.keys.Completed()))))
			at := ask(w, w.keys.Page(w.keys.Completed(), OrderLowest, 0, 1, MaxBytes)).Entries[0].Score
			seconds, err := strconv.ParseFloat(at, 64)
			require.NoError(w, err)
			require.InDelta(w, time.Now().Unix(), seconds, 60, "by Redis' clock")
			require.InDelta(w, 60, w.number("TTL", w.keys.Completed()), 5, "as long as the state of the last one")
			delete := []ActGroup{{Destination: DestinationNone, Jobs: []Promotion{{Old: dead.Raw(), Owned: Owned{State: EndedState(dead, TrackCancelled, time.Unix(2, 0))}}}}}
			require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, delete)))
			require.Contains(w, w.sorted(w.keys.Completed()), "dead", "an operator has deleted it")
		}},
		promise{"that_are_completed_are_listed_as_long_as_any_state_is_kept", func(w *world) {
			j := tracked(w.TB, "j")
			for ago, jid := range map[time.Duration]string{50 * time.Minute: "kept for an hour", 70 * time.Minute: "expired"} {
				w.redis("ZADD", w.keys.Completed(), strconv.FormatInt(time.Now().Add(-ago).Unix(), 10), jid)
			}
			w.redis("EXPIRE", w.keys.Completed(), "3600")
			settled := end("q", j.Raw(), job.Done())
			settled.State = EndedState(j, TrackDone, time.Unix(2, 0))
			require.Equal(w, allSettled, w.settle(w.hold(j.Raw()), 1, settled))
			require.Equal(w, []string{"kept for an hour", "j"}, w.sorted(w.keys.Completed()))
			require.InDelta(w, 3600, w.number("TTL", w.keys.Completed()), 60)
		}},
		promise{"that_are_completed_are_listed_up_to_a_bound", func(w *world) {
			j := tracked(w.TB, "last")
			for page := 0; page < MaxCompleted; page += 1000 {
				words := []string{"ZADD", w.keys.Completed()}
				for n := page; n < page+1000; n++ {
					words = append(words, strconv.FormatInt(time.Now().Add(-24*time.Hour).Unix()+int64(n), 10), "j"+strconv.Itoa(n))
				}
				w.redis(words...)
			}
			w.redis("EXPIRE", w.keys.Completed(), "172800")
			settled := end("q", j.Raw(), job.Done())
			settled.State = EndedState(j, TrackDone, time.Unix(2, 0))
			require.Equal(w, allSettled, w.settle(w.hold(j.Raw()), 1, settled))
			require.Equal(w, MaxCompleted, w.number("ZCARD", w.keys.Completed()))
			listed := w.sorted(w.keys.Completed())
			require.Equal(w, []string{"j1", "last"}, []string{listed[0], listed[len(listed)-1]})
		}},
		promise{"end_although_the_completed_jobs_cannot_be_listed", func(w *world) {
			j := tracked(w.TB, "j")
			w.redis("SET", w.keys.Completed(), "x")
			settled := end("q", j.Raw(), job.Done())
			settled.State = EndedState(j, TrackDone, time.Unix(2, 0))
			require.Equal(w, allSettled, w.settle(w.hold(j.Raw()), 1, settled))
			require.Equal(w, TrackDone, w.stateOf("j").State)
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
