package lua

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
)

// read reads the marks that a heartbeat reports.
func (w *world) read(marks *Marks, identity string) {
	w.Helper()
	if !marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked) {
		return
	}
	for more := true; more; {
		var err error
		more, err = marks.Read(w.Context(), w.client, w.keys)
		require.NoError(w, err)
	}
}

func created(w *world, jid string, at time.Time) *job.Job {
	parsed, err := job.Parse(job.Draft{Class: "A", Queue: "q", JID: jid, CreatedAt: at}.Encode())
	require.NoError(w, err)
	return parsed
}

// cutOff is a client whose replies are all lost.
type cutOff struct{ driver.Client }

var errCut = &driver.UncertainError{Err: context.DeadlineExceeded}

func (cutOff) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	replies := make([]driver.Reply, len(calls))
	for i := range replies {
		replies[i].Err = errCut
	}
	return replies
}

func TestMarks(t *testing.T) {
	keep(t,
		promise{"cost_nothing_while_there_are_none", func(w *world) {
			marks := &Marks{}
			require.False(w, marks.Notice(ask(w, w.keys.Heartbeat(w.process("q"), someTTL)).Marked))
			require.False(w, marks.Binds(created(w, "a", time.Unix(1, 0))))
			require.Equal(w, int64(0), w.redis("EXISTS", w.keys.Cancelled()))
		}},
		promise{"bind_what_was_created_before_and_nothing_created_later", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}, {JID: "b"}}))
			w.read(marks, identity)
			require.True(w, marks.Binds(created(w, "a", at)))
			require.True(w, marks.Binds(created(w, "b", at.Add(-24*time.Hour))))
			require.False(w, marks.Binds(created(w, "a", at.Add(2*time.Millisecond))), "a later job of the same jid")
			require.False(w, marks.Binds(created(w, "c", at.Add(-time.Hour))))
			undated, err := job.Parse(`{"class":"A","jid":"a","args":[]}`)
			require.NoError(w, err)
			require.True(w, marks.Binds(undated))
		}},
		promise{"are_read_again_where_the_first_read_failed", func(w *world) {
			marks := &Marks{}
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			_, err := marks.Read(w.Context(), cutOff{}, w.keys)
			require.ErrorIs(w, err, errCut)
			more, err := marks.Read(w.Context(), w.client, w.keys)
			require.NoError(w, err)
			require.False(w, more)
			require.True(w, marks.Binds(created(w, "a", at)), "no heartbeat has reported the mark")
		}},
		promise{"bind_one_job_whose_clock_was_ahead", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			ahead := created(w, "a", time.Now().Add(time.Hour))
			text, _ := ahead.Field("created_at")
			ask(w, w.keys.Mark([]Mark{{JID: "a"}, {"a", text}}))
			w.read(marks, identity)
			require.True(w, marks.Binds(ahead))
			require.False(w, marks.Binds(created(w, "a", time.Now().Add(2*time.Hour))))
		}},
		promise{"are_read_page_by_page_and_only_the_newer_ones", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			var first []Mark
			for n := range 3 * MaxItems {
				first = append(first, Mark{JID: "j" + strconv.Itoa(n)})
			}
			for n := 0; n < len(first); n += MaxItems {
				ask(w, w.keys.Mark(first[n:n+MaxItems]))
			}
			w.read(marks, identity)
			require.Equal(w, len(first), marks.Len())
			require.False(w, marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked), "nothing is new")
			ask(w, w.keys.Mark([]Mark{{JID: "late"}}))
			w.read(marks, identity)
			require.Equal(w, len(first)+1, marks.Len())
		}},
		promise{"are_missed_by_no_process_when_others_are_removed", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			w.read(marks, identity)
			require.Equal(w, 1, ask(w, w.keys.Unmark([]Mark{{JID: "a"}}, time.Now(), false)))
			require.False(w, marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked))
			at := ask(w, w.keys.Mark([]Mark{{JID: "b"}}))
			w.read(marks, identity)
			require.True(w, marks.Binds(created(w, "b", at)))
		}},
		promise{"are_newer_than_those_before_though_the_clock_was_set_back", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
			w.redis("ZADD", w.keys.Cancelled(), ahead, "a", ahead, "")
			w.read(marks, identity)
			for _, jid := range []string{"b", "c"} {
				at := ask(w, w.keys.Mark([]Mark{{JID: jid}}))
				w.read(marks, identity)
				require.True(w, marks.Binds(created(w, jid, at)))
			}
		}},
		promise{"are_forgotten_and_read_anew_when_Redis_has_lost_them", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			w.read(marks, identity)
			w.redis("DEL", w.keys.Cancelled())
			w.read(marks, identity)
			require.False(w, marks.Binds(created(w, "a", at)))
			before := strconv.FormatInt(at.Add(-time.Hour).UnixMicro(), 10)
			w.redis("ZADD", w.keys.Cancelled(), before, "b", before, "") // an older snapshot
			w.read(marks, identity)
			require.True(w, marks.Binds(created(w, "b", at.Add(-2*time.Hour))))
		}},
		promise{"that_are_taken_back_are_forgotten_by_those_that_have_read_them", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			for range 2 { // a job may be cancelled again
				at := ask(w, w.keys.Mark([]Mark{{JID: "dead"}, {JID: "stays"}}))
				w.read(marks, identity)
				require.True(w, marks.Binds(created(w, "dead", at)))
				require.Equal(w, 1, ask(w, w.keys.Unmark([]Mark{{JID: "dead"}}, at, true)))
				require.Zero(w, ask(w, w.keys.Unmark([]Mark{{JID: "dead"}}, at, true)), "it was taken back")
				w.read(marks, identity)
				require.False(w, marks.Binds(created(w, "dead", at)))
				require.True(w, marks.Binds(created(w, "stays", at)))
				require.False(w, marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked))
			}
		}},
		promise{"that_were_made_anew_are_not_taken_back", func(w *world) {
			early := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			late := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			require.True(w, late.After(early))
			require.Zero(w, ask(w, w.keys.Unmark([]Mark{{JID: "a"}, {JID: "none"}}, early, true)))
			require.NotNil(w, w.redis("ZSCORE", w.keys.Cancelled(), "a"))
		}},
		promise{"bind_on_while_all_are_read_again", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			var all []Mark
			for n := range 2 * MaxItems {
				all = append(all, Mark{JID: "j" + strconv.Itoa(n)})
			}
			ask(w, w.keys.Mark(all[:MaxItems]))
			at := ask(w, w.keys.Mark(all[MaxItems:]))
			w.read(marks, identity)
			ask(w, w.keys.Unmark(all[:1], at, true))
			marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked)
			for more := true; more; {
				var err error
				more, err = marks.Read(w.Context(), w.client, w.keys)
				require.NoError(w, err)
				require.True(w, marks.Binds(created(w, all[len(all)-1].JID, at)))
			}
			require.False(w, marks.Binds(created(w, all[0].JID, at)))
			require.Equal(w, len(all)-1, marks.Len())
		}},
		promise{"do_not_bind_a_job_that_was_retried_after_them", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			w.read(marks, identity)
			before := created(w, "a", at.Add(-time.Hour))
			retried, err := job.Parse(before.Patch(job.SetInt(job.FieldUnmarked, int(ask(w, w.keys.NewestMark())))))
			require.NoError(w, err)
			require.True(w, marks.Binds(before))
			require.False(w, marks.Binds(retried))
			ask(w, w.keys.Mark([]Mark{MarkOfJob(before)}))
			w.read(marks, identity)
			require.False(w, marks.Binds(retried), "a mark of this one job ends, too")
			ask(w, w.keys.Mark([]Mark{MarkOfJob(retried)}))
			w.read(marks, identity)
			require.True(w, marks.Binds(retried), "it is cancelled again")
			ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			w.read(marks, identity)
			require.True(w, marks.Binds(retried))
		}},
		promise{"that_are_newer_than_a_retry_knows_stop_it", func(w *world) {
			retry := func(newest int64) Acted {
				groups := groupTo(DestinationQueue, "job")
				groups[0].Queue, groups[0].Unmarked = "q", &newest
				return ask(w, w.keys.Act(Source{Key: w.keys.Dead()}, groups))
			}
			w.dueAt(w.keys.Dead(), time.Hour, "job")
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			ask(w, w.keys.Unmark([]Mark{{JID: "a"}}, at, false))
			for _, known := range []int64{0, at.UnixMicro() - 1} {
				w.unchanged(func() {
					require.Equal(w, Acted{Marked: at.UnixMicro()}, retry(known), "a process may still have the mark")
				})
			}
			require.Empty(w, retry(at.UnixMicro()))
			require.Equal(w, int64(1), w.redis("LLEN", w.keys.Queue("q")))
		}},
		promise{"expire", func(w *world) {
			old := strconv.FormatInt(time.Now().Add(-KeepMarks-time.Hour).UnixMicro(), 10)
			w.redis("ZADD", w.keys.Cancelled(), old, "old")
			ask(w, w.keys.Mark([]Mark{{JID: "new"}}))
			require.Nil(w, w.redis("ZSCORE", w.keys.Cancelled(), "old"))
			ttl, _ := w.redis("TTL", w.keys.Cancelled()).(int64)
			require.InDelta(w, KeepMarks.Seconds(), float64(ttl), 5)
		}},
		promise{"beyond_their_maximum_are_refused_and_none_is_lost", func(w *world) {
			old := strconv.FormatInt(time.Now().Add(-KeepMarks-time.Hour).UnixMicro(), 10)
			young := strconv.FormatInt(time.Now().Add(-time.Hour).UnixMicro(), 10)
			page := []string{old, "old"}
			for n := range MaxMarks - 2 {
				page = append(page, young, "j"+strconv.Itoa(n))
			}
			w.redis(append([]string{"ZADD", w.keys.Cancelled()}, page...)...)
			at := ask(w, w.keys.Mark([]Mark{{JID: "stopping"}}))
			ask(w, w.keys.Unmark([]Mark{{JID: "j7"}}, at, true))
			ask(w, w.keys.Mark([]Mark{{JID: "j7"}, {JID: "stopping"}, {JID: "last"}}))
			for range 2 {
				refused(w, FullCode, w.keys.Mark([]Mark{{JID: "j1"}, {JID: "one too many"}}))
			}
			ask(w, w.keys.Mark([]Mark{{JID: "j1"}})) // it is marked already
			require.Equal(w, int64(MaxMarks+2), w.redis("ZCARD", w.keys.Cancelled()), "the marks and the two events")
			for _, jid := range []string{"stopping", "last", "j0"} {
				require.NotNil(w, w.redis("ZSCORE", w.keys.Cancelled(), jid))
			}
		}},
		promise{"of_a_key_of_another_type_are_none", func(w *world) {
			identity := w.process("q")
			w.redis("SET", w.keys.Cancelled(), "x")
			require.Equal(w, StateAlive, ask(w, w.keys.Heartbeat(identity, someTTL)).State)
			refused(w, "WRONGTYPE", w.keys.Mark([]Mark{{JID: "a"}}))
		}},
	)
}
