package janitor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// heartbeatAt is the reply to a heartbeat sent at an instant since boot, by a Redis whose clock agrees.
func heartbeatAt(at time.Duration, lapsed ...string) heartbeat {
	return heartbeat{HeartbeatReply: lua.HeartbeatReply{State: lua.StateAlive, Now: time.Unix(1_700_000_000, 0).Add(at), Lapsed: lapsed}, sinceBoot: at}
}

// A judge is a janitor whose only work is to judge one victim, with instants that lie in the past, so that no
// delay is left to wait for.
func newJudge() (*Janitor, time.Duration) {
	const beat = time.Second
	j := New(Config{Beat: beat, TTL: 4 * beat, Between: beat})
	return j, lua.SinceBoot() - time.Hour
}

func (j *Janitor) look(h heartbeat) { j.Look(h.HeartbeatReply, h.sinceBoot, 0) }

// dead are the names of those that it may follow now, as me.
func (j *Janitor) dead(me string) []string {
	var names []string
	for _, v := range j.confirmed(map[string]bool{me: true}) {
		names = append(names, v.identity)
	}
	return names
}

func (j *Janitor) knows(victim string, beat time.Duration) {
	j.noteRecord(victim, lua.Record{Beat: beat, TTL: 4 * beat, Queues: []string{"q"}}, true)
}

func TestJanitorJudges(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	look := func(t *testing.T, replies ...func(start time.Duration) heartbeat) []string {
		t.Helper()
		j, start := newJudge()
		for _, reply := range replies {
			if reply == nil {
				j.Blind()
				continue
			}
			j.look(reply(start))
			j.knows("victim", beat)
		}
		return j.dead("me")
	}
	at := func(offset time.Duration, lapsed ...string) func(time.Duration) heartbeat {
		return func(start time.Duration) heartbeat { return heartbeatAt(start+offset, lapsed...) }
	}

	t.Run("one_look_declares_no_process_dead", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat), at(2*beat), at(3*beat), at(4*beat), at(5*beat, "victim")))
	})
	t.Run("two_looks_of_one_beat_declare_no_process_dead", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat), at(2*beat), at(3*beat), at(4*beat, "victim"), at(5*beat, "victim")))
	})
	t.Run("two_looks_two_of_its_beats_apart_declare_it_dead", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, look(t, at(0), at(beat), at(2*beat, "victim"), at(3*beat, "victim"), at(4*beat, "victim")), "victim")
	})
	t.Run("a_first_look_whose_answer_came_late_counts_from_its_answer", func(t *testing.T) {
		t.Parallel()
		j, start := newJudge()
		for n := range 2 {
			j.look(heartbeatAt(start + time.Duration(n)*beat))
		}
		late := heartbeatAt(start+2*beat, "victim")
		j.Look(late.HeartbeatReply, late.sinceBoot, beat/2) // Redis may have executed it just before it answered
		for n := 3; n <= 4; n++ {
			j.look(heartbeatAt(start+time.Duration(n)*beat, "victim"))
			j.noteRecord("victim", lua.Record{Beat: beat, TTL: 4 * beat, Queues: []string{"q"}}, true)
		}
		require.Empty(t, j.dead("me"))
		j.look(heartbeatAt(start+5*beat, "victim"))
		require.Contains(t, j.dead("me"), "victim")
	})
	t.Run("a_sight_of_the_clock_shorter_than_its_TTL_declares_no_process_dead", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat, "victim"), at(2*beat, "victim"), at(3*beat, "victim")))
	})
	t.Run("one_that_beat_in_between_is_looked_at_anew", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat, "victim"), at(2*beat, "victim"), at(3*beat), at(4*beat, "victim"), at(5*beat, "victim")))
	})
	t.Run("a_failed_beat_of_our_own_breaks_our_sight", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat), at(2*beat, "victim"), nil, at(3*beat, "victim"), at(4*beat, "victim"), at(4*beat+beat/2, "victim")))
	})
	t.Run("a_server_that_does_not_know_us_breaks_our_sight", func(t *testing.T) {
		t.Parallel()
		other := func(start time.Duration) heartbeat { // after a failover that lost our registration
			reply := heartbeatAt(start+3*beat, "victim")
			reply.State = lua.StateUnknown
			return reply
		}
		require.Empty(t, look(t, at(0), at(beat, "victim"), at(2*beat, "victim"), other, at(4*beat, "victim"), at(4*beat+beat/2, "victim")))
	})
	t.Run("a_gap_in_our_own_beats_breaks_our_sight", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0), at(beat, "victim"), at(4*beat, "victim"), at(5*beat, "victim")))
	})
	t.Run("a_gap_in_our_own_beats_costs_no_more_than_two_looks", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, look(t, at(0), at(beat), at(4*beat, "victim"), at(5*beat, "victim"), at(6*beat, "victim")), "victim")
	})
	t.Run("our_first_beat_is_no_sight_yet", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, look(t, at(0, "victim"), at(beat, "victim")))
	})
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run("a_clock_set_"+name+"_breaks_our_sight", func(t *testing.T) {
			t.Parallel()
			stepped := func(offset time.Duration) func(time.Duration) heartbeat {
				return func(start time.Duration) heartbeat {
					reply := heartbeatAt(start+offset, "victim")
					reply.Now = reply.Now.Add(step)
					return reply
				}
			}
			// It may have beaten just before, and be cut off for less than its TTL.
			require.Empty(t, look(t, at(0), at(beat), stepped(2*beat), stepped(3*beat), stepped(4*beat), stepped(5*beat)))
			require.Contains(t, look(t, at(0), at(beat), stepped(2*beat), stepped(3*beat), stepped(4*beat), stepped(5*beat), stepped(6*beat)), "victim")
		})
	}
	t.Run("we_do_not_judge_ourselves", func(t *testing.T) {
		t.Parallel()
		j, start := newJudge()
		for n := range 5 {
			j.look(heartbeatAt(start+time.Duration(n)*beat, "me"))
			j.knows("me", beat)
		}
		require.Empty(t, j.dead("me"))
	})
	t.Run("a_slow_beater_is_given_its_own_time", func(t *testing.T) {
		t.Parallel()
		j, start := newJudge()
		for n := range 20 {
			j.look(heartbeatAt(start + time.Duration(n)*beat))
		}
		for n := range 10 {
			j.look(heartbeatAt(start+time.Duration(20+n)*beat, "slow"))
			j.knows("slow", 5*beat)
		}
		require.Empty(t, j.dead("me"))
		for n := range 3 {
			j.look(heartbeatAt(start+time.Duration(30+n)*beat, "slow"))
		}
		require.Contains(t, j.dead("me"), "slow")
	})
	t.Run("survivors_do_not_act_at_one_instant", func(t *testing.T) {
		t.Parallel()
		delays := make(map[time.Duration]bool)
		for range 20 {
			j, start := newJudge()
			j.look(heartbeatAt(start))
			j.look(heartbeatAt(start+beat, "victim"))
			require.Less(t, j.lapsed["victim"].delay, beat)
			delays[j.lapsed["victim"].delay] = true
		}
		require.Greater(t, len(delays), 10)
	})
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		t.Run("jobs_of_a_dead_process_are_at_the_heads_of_their_queues", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "a", "b")
			first, second := r.push("a", 3), r.push("b", 3)
			r.take(6)
			waiting := r.push("a", 2)
			victim := r.victim
			r.lapse(victim)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("b"))) == 3 && len(r.list(r.keys.Queue("a"))) == 5 })
			require.True(t, r.isTombstoned(victim))
			queue := r.list(r.keys.Queue("a"))
			for i := range first {
				recovered, err := job.Parse(queue[len(queue)-1-i])
				require.NoError(t, err)
				was, _ := job.Parse(first[i])
				require.Equal(t, was.JID(), recovered.JID(), "the oldest is first in line")
				require.Equal(t, 1, recovered.InterruptedCount())
				_, failed := recovered.RetryCount()
				require.False(t, failed, "a crash costs no retry")
			}
			require.Equal(t, waiting[1], queue[0], "those that waited wait behind")
			require.Len(t, second, 3)
		})

		t.Run("unreadable_entries_die_with_their_reason_and_their_text_and_stop_nothing", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			victim := r.victim
			good := []string{payload("mail"), payload("mail")}
			huge := strings.Repeat("x", 5<<20)
			tracked := `{"belay_track_ms":60000,"args":["` + "\xff" + `"],"class":"C","jid":"tracked","created_at":1.5}`
			bad := []string{"{", "", "\xff\xfe", "[]", "null", strings.Repeat("[", 1001), huge, tracked}
			entries := append([]string{"LPUSH", r.keys.Working("mail", victim), good[0]}, bad...)
			r.do(append(entries, good[1])...)
			r.lapse(victim)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 2 })
			var dead []string
			for _, entry := range r.do("ZRANGE", r.keys.Dead(), "0", "-1").([]any) {
				dead = append(dead, asPushed(t, entry.(string)))
			}
			require.ElementsMatch(t, bad, dead)
			require.Equal(t, strconv.Itoa(len(bad)), r.count(r.keys.Processed()))
			require.Equal(t, strconv.Itoa(len(bad)), r.count(r.keys.Failed()))
			require.Equal(t, "dead", r.do("HGET", r.keys.Iteration("tracked"), lua.FieldState))
			require.Equal(t, job.UnreadableClass, r.do("HGET", r.keys.Iteration("tracked"), lua.FieldErrorClass))
		})

		t.Run("a_broken_queue_holds_up_no_other_and_comes_back_when_mended", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "broken", "good")
			r.push("broken", 1)
			r.push("good", 1)
			r.take(2)
			r.do("SET", r.keys.Queue("broken"), "x")
			r.lapse(r.victim)
			j, session := r.newJanitor()
			round := func() error {
				r.watch(j, session)
				return j.Pass(context.Background(), session.Identity)
			}
			var passErr error
			drivertest.Eventually(t, func() bool {
				if err := round(); err != nil {
					passErr = err
				}
				return len(r.list(r.keys.Queue("good"))) == 1 && passErr != nil
			}, patience, 20*time.Millisecond)
			require.ErrorContains(t, passErr, "broken")
			require.Len(t, r.working("broken"), 1, "not lost")
			r.do("DEL", r.keys.Queue("broken"))
			drivertest.Eventually(t, func() bool {
				_ = round() // until refusedFor has passed it reports the refusal
				return len(r.list(r.keys.Queue("broken"))) == 1
			}, patience, 20*time.Millisecond)
			require.NoError(t, round())
		})

		t.Run("a_list_longer_than_a_page_comes_back_in_order", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			victim := r.victim
			words := []string{"LPUSH", r.keys.Working("mail", victim)}
			var jids []string
			for range 600 {
				jids = append(jids, job.NewJID())
				words = append(words, job.Draft{Class: "T", Queue: "mail", JID: jids[len(jids)-1]}.Encode())
			}
			r.do(words...)
			r.lapse(victim)
			j, session := r.newJanitor()
			r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 600 })
			queue := r.list(r.keys.Queue("mail"))
			for i, jid := range jids {
				require.Contains(t, queue[len(queue)-1-i], jid)
			}
			require.Nil(t, r.do("ZSCORE", r.keys.Alive(), victim))
		})
	})
}

// swept is one sweep, and when it wants to be called again.
func swept(t *testing.T, j *Janitor, me string) time.Duration {
	t.Helper()
	next, err := j.Sweep(context.Background(), me)
	require.NoError(t, err)
	return next
}

func TestExpiredBatchesAreDeleted(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "mail")
		j, session := r.newJanitor()
		r.look(j, session)
		for id, expiry := range map[string]string{"expired": "1", "kept": "99999999999"} {
			word, err := r.keys.NewBatch(lua.NewBatch{Batch: lua.Batch{ID: id, Queue: "mail"}}).Do(t.Context(), r.client)
			require.NoError(t, err)
			require.Equal(t, lua.BatchNew, word)
			r.do("ZADD", r.keys.Batches(), expiry, id)
		}
		swept(t, j, session.Identity)
		require.Zero(t, r.do("EXISTS", r.keys.Batch("expired"), r.keys.BatchPending("expired")))
		require.Equal(t, int64(2), r.do("EXISTS", r.keys.Batch("kept"), r.keys.BatchPending("kept")))
		require.Equal(t, int64(1), r.do("ZCARD", r.keys.Batches()))
	})
}

// expired stores batches that have expired, and returns their ids.
func (r *rig) expired(count int, expiry string) (ids []string) {
	r.t.Helper()
	for range count {
		ids = append(ids, fmt.Sprintf("b%s.%d", expiry, len(ids)))
		r.do("HSET", r.keys.Batch(ids[len(ids)-1]), "created", "1", "total", "0")
		r.do("ZADD", r.keys.Batches(), expiry, ids[len(ids)-1])
	}
	return ids
}

// A fleet that makes many batches must not have more and more of them: a page follows the one before.
func TestManyExpiredBatchesAreDeletedOnePageAfterTheOther(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "mail")
		j, session := r.newJanitor()
		r.look(j, session)
		ids := r.expired(5*dropped+1, "1")
		sweeps := 0
		for next := unlistRest; next == unlistRest; sweeps++ {
			next = swept(t, j, session.Identity)
		}
		require.Zero(t, r.do("ZCARD", r.keys.Batches()))
		for _, id := range ids {
			require.Zero(t, r.do("EXISTS", r.keys.Batch(id)))
		}
		require.Equal(t, 6, sweeps, "others are served in between")
	})
}

func TestExpiredBatchesThatRedisRefusesToDeleteStopNoOthers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "mail")
		j, session := r.newJanitor()
		r.look(j, session)
		unread, refused := r.expired(dropped, "1"), r.expired(dropped, "2")
		for at := range unread {
			r.do("SET", r.keys.Batch(unread[at]), "no hash")
			r.do("HSET", r.keys.Batch(refused[at]), "parent", "outer/broken", "complete", "1", "success", "2")
		}
		r.do("SET", r.keys.Queue("broken"), "no list") // the queue of the parent's callbacks
		good := r.expired(1, "3")
		_, err := j.Sweep(t.Context(), session.Identity)
		require.ErrorContains(t, err, unread[0])
		_, err = j.Sweep(t.Context(), session.Identity)
		require.ErrorContains(t, err, refused[0])
		require.Zero(t, swept(t, j, session.Identity), "that was the last page")
		require.Zero(t, r.do("EXISTS", r.keys.Batch(good[0])))
		require.Equal(t, int64(2*dropped), r.do("ZCARD", r.keys.Batches()))
		r.do("DEL", r.keys.Queue("broken"))
		j.droppedAt = j.droppedAt.Add(-dropEvery)
		_, err = j.Sweep(t.Context(), session.Identity)
		require.ErrorContains(t, err, unread[0], "none is passed over for good")
		for range 2 {
			swept(t, j, session.Identity)
		}
		require.Equal(t, int64(dropped), r.do("ZCARD", r.keys.Batches()))
	})
}

func TestLatecomers(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		sweep := func(r *rig, j *Janitor, session *process, until func() bool) {
			drivertest.Eventually(r.t, func() bool {
				swept(r.t, j, session.Identity)
				return until()
			}, patience, 20*time.Millisecond)
		}

		t.Run("a_wait_answered_after_a_clean_exit_is_found_as_it_was", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			waiter, err := r.client.Waiter()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, waiter.Close()) })
			answered := make(chan bool, 1)
			go func() {
				_, moved, err := waiter.Wait(r.ctx, r.keys.Queue("mail"), r.keys.Working("mail", r.victim), 20*time.Second)
				answered <- moved && err == nil
			}()
			drivertest.Eventually(t, func() bool {
				return strings.Contains(fmt.Sprint(r.do("CLIENT", "LIST")), "cmd=blmove")
			}, patience, 5*time.Millisecond)
			left, err := r.keys.Deregister(r.victim, r.record.Queues).Do(t.Context(), r.client)
			require.NoError(t, err)
			require.Zero(t, left)
			j, session := r.newJanitor()
			jobs := r.push("mail", 1)
			require.True(t, <-answered)
			sweep(r, j, session, func() bool {
				return len(r.list(r.keys.Queue("mail"))) == 1 && strings.Contains(r.log.String(), "late entries")
			})
			require.Equal(t, jobs, r.list(r.keys.Queue("mail")), "byte for byte: no process had it")
		})

		t.Run("tombstones_stand_for_a_day_and_as_long_as_a_list_holds_a_job", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			j, session := r.newJanitor()
			_, err := r.keys.Deregister(r.victim, r.record.Queues).Do(t.Context(), r.client)
			require.NoError(t, err)
			r.look(j, session)
			swept(t, j, session.Identity)
			require.True(t, r.isTombstoned(r.victim))
			old := strconv.FormatInt(time.Now().Add(-25*time.Hour).UnixMilli(), 10)
			r.do("ZADD", r.keys.Tombstones(), "XX", old, r.victim)
			sweep(r, j, session, func() bool { return !r.isTombstoned(r.victim) })
			require.Equal(t, int64(0), r.do("EXISTS", r.keys.Record(r.victim)))
		})

		t.Run("locks_that_ran_out_leave_their_index_once_a_minute", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			j, session := r.newJanitor()
			later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
			for n := range 2*lua.MaxItems + 1 {
				r.do("ZADD", r.keys.Unique(), "1", strconv.Itoa(n))
			}
			r.do("ZADD", r.keys.Unique(), later, "held")
			swept(t, j, session.Identity)
			require.Equal(t, int64(1), r.do("ZCARD", r.keys.Unique()))
			r.do("ZADD", r.keys.Unique(), "1", "one more")
			swept(t, j, session.Identity)
			require.Equal(t, int64(2), r.do("ZCARD", r.keys.Unique()), "not at every beat")
			j.unlistedAt = j.unlistedAt.Add(-unlistEvery)
			swept(t, j, session.Identity)
			require.Equal(t, int64(1), r.do("ZCARD", r.keys.Unique()))
		})

		t.Run("one_process_at_a_time_sweeps", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, open, "mail")
			j, session := r.newJanitor()
			j.cfg.Beat = time.Minute // so that the lease outlasts the test
			require.Zero(t, swept(t, j, session.Identity))
			otherJanitor := New(j.cfg)
			held, err := lua.Lease(r.keys.Sweeper(), "another", sweeperBeats*j.cfg.Beat).Do(t.Context(), r.client)
			require.NoError(t, err)
			require.False(t, held)
			require.Positive(t, swept(t, otherJanitor, "another"), "it need not ask at each beat")
		})

		t.Run("more_lists_than_a_page_are_all_looked_at", func(t *testing.T) {
			t.Parallel()
			queues := make([]string, 100)
			for i := range queues {
				queues[i] = fmt.Sprintf("q%d", i)
			}
			r := newRig(t, open, queues...)
			j, session := r.newJanitor()
			first := r.victim
			for range 6 {
				_, err := r.keys.Deregister(r.victim, queues).Do(t.Context(), r.client)
				require.NoError(t, err)
				r.enter()
			}
			orphan := payload("q7")
			r.do("LPUSH", r.keys.Working("q7", first), orphan)
			sweep(r, j, session, func() bool { return len(r.list(r.keys.Queue("q7"))) == 1 })
		})
	})
}

// asPushed is the text of an entry of the dead set as it was before it died unread.
func asPushed(t testing.TB, entry string) string {
	t.Helper()
	parsed, err := job.Parse(entry)
	require.NoError(t, err, "%.200q", entry)
	class, _ := parsed.Text("error_class")
	message, _ := parsed.Text("error_message")
	require.NotEmpty(t, class)
	require.NotEmpty(t, message)
	raw, ok := parsed.Kept()
	require.True(t, ok, "%.200q", entry)
	return raw
}

// A janitor of a version without limits has recovered the jobs of a dead process, and left its slots.
func TestTheSweepFreesSlotsOfProcessesThatHaveNoJobs(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, "mail")
		gate := lua.Gate{Name: "five:"}
		r.do("HSET", r.keys.Slots(r.victim), "hash", gate.Name)
		r.do("HSET", r.keys.Gates(), gate.RunningField(), "1")
		r.do("ZREM", r.keys.Alive(), r.victim)
		r.do("ZADD", r.keys.Tombstones(), strconv.FormatInt(time.Now().UnixMilli(), 10), r.victim)
		j, session := r.newJanitor()
		swept(t, j, session.Identity)
		require.Equal(t, int64(0), r.do("EXISTS", r.keys.Slots(r.victim), r.keys.Gates()))
		require.Contains(t, r.log.String(), "freed slots")
		logged := r.log.String()
		require.NoError(t, j.freeSlots(r.ctx, []string{r.victim}, map[string]lua.Record{r.victim: r.record}))
		require.Equal(t, logged, r.log.String(), "a recovery has freed them since the sweep read that there are some")
	})
}
