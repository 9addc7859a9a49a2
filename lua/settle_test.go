package lua

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestSettle(t *testing.T) {
	keep(t,
		promise{"done_and_discarded_jobs_are_nowhere", func(w *world) {
			identity := w.hold("a", "b", "c")
			require.Equal(w, allSettled, w.settle(identity, 1,
				end("q", "a", job.Done()), end("q", "b", job.Discarded(false)), end("q", "c", job.Discarded(true))))
			require.Empty(w, w.list(w.keys.Working("q", identity)))
			require.Empty(w, w.waiting("q"))
			w.counted(3, 1)
		}},
		promise{"a_retried_job_waits_in_retry_with_its_new_bytes", func(w *world) {
			identity := w.hold("a")
			before := w.now()
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Retried("a'", 90*time.Second))))
			require.Equal(w, []string{"a'"}, w.sorted(w.keys.Retry()))
			w.within(before+90, w.score(w.keys.Retry(), "a'"), w.now()+90)
			require.Empty(w, w.list(w.keys.Working("q", identity)))
			w.counted(1, 1)
		}},
		promise{"a_snoozed_job_waits_in_the_schedule_and_counts_nothing", func(w *world) {
			identity := w.hold("a")
			before := w.now()
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Snoozed("a'", 1500*time.Millisecond))))
			require.Equal(w, []string{"a'"}, w.sorted(w.keys.Schedule()))
			w.within(before+1.5, w.score(w.keys.Schedule(), "a'"), w.now()+1.5)
			w.counted(0, 0)
		}},
		promise{"a_dead_job_lies_in_dead_from_now", func(w *world) {
			identity := w.hold("a", "b")
			before := w.now()
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Died("a'")), end("q", "b", job.Unread("b"))))
			require.ElementsMatch(w, []string{"a'", "b"}, w.sorted(w.keys.Dead()))
			w.within(before, w.score(w.keys.Dead(), "a'"), w.now())
			w.counted(2, 2)
		}},
		promise{"requeued_jobs_come_to_the_head_in_the_order_given", func(w *world) {
			identity := w.hold("a", "b", "c")
			w.push("q", "d")
			back := job.Requeued()
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "c", back), end("q", "b", back), end("q", "a", back)))
			require.Equal(w, []string{"a", "b", "c", "d"}, w.waiting("q"))
			require.Empty(w, w.list(w.keys.Working("q", identity)))
			w.counted(0, 0)
		}},
		promise{"no_two_jobs_of_a_batch_share_a_score", func(w *world) {
			names, ends := make([]string, 100), make([]Settled, 100)
			for i := range names {
				names[i] = strconv.Itoa(i)
				ends[i] = end("q", names[i], job.Retried(names[i], time.Hour))
			}
			identity := w.hold(names...)
			require.Equal(w, allSettled, w.settle(identity, 1, ends...))
			scores := make(map[float64]bool)
			for _, name := range names {
				scores[w.score(w.keys.Retry(), name)] = true
			}
			require.Len(w, scores, len(names))
		}},
		promise{"a_day's_counters_expire_and_the_totals_do_not", func(w *world) {
			identity := w.hold("a", "b")
			w.settle(identity, 1, end("q", "a", job.Retried("a", 0)))
			for _, key := range []string{w.keys.ProcessedOn(w.today), w.keys.FailedOn(w.today)} {
				require.InDelta(w, keepDay.Seconds(), w.number("TTL", key), 60)
				w.redis("EXPIRE", key, "1000")
			}
			w.settle(identity, 2, end("q", "b", job.Retried("b", 0)))
			for _, key := range []string{w.keys.ProcessedOn(w.today), w.keys.FailedOn(w.today)} {
				require.LessOrEqual(w, w.number("TTL", key), 1000, "set once, by the first of the day")
			}
			require.Equal(w, -1, w.number("TTL", w.keys.Processed()))
			require.Equal(w, -1, w.number("TTL", w.keys.Failed()))
			w.counted(2, 2)
		}},
		promise{"a_broken_counter_keeps_no_job_from_ending", func(w *world) {
			identity := w.hold("a")
			w.redis("SET", w.keys.Processed(), "many")
			w.redis("LPUSH", w.keys.ProcessedOn(w.today), "many")
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Done())))
			require.Empty(w, w.list(w.keys.Working("q", identity)))
		}},
		promise{"writes_nothing_for_a_job_we_lost", func(w *world) {
			identity := w.hold("ours")
			verdict := w.settle(identity, 1,
				end("q", "lost1", job.Retried("lost1'", 0)), end("q", "lost2", job.Snoozed("lost2'", 0)),
				end("q", "lost3", job.Died("lost3'")), end("q", "lost4", job.Requeued()),
				end("q", "ours", job.Done()), end("q", "lost5", job.Done()), end("q", "lost6", job.Discarded(true)))
			require.Equal(w, SettleVerdict{Word: SettleSettled, Lost: []int{0, 1, 2, 3, 5, 6}}, verdict)
			for _, set := range []string{w.keys.Retry(), w.keys.Schedule(), w.keys.Dead()} {
				require.Empty(w, w.sorted(set))
			}
			require.Empty(w, w.waiting("q"))
			w.counted(1, 0)
		}},
		promise{"takes_a_job_only_out_of_the_list_it_was_taken_into", func(w *world) {
			identity, holder := w.process("q", "r"), w.hold("a")
			w.holdMore(identity, "r", "a")
			require.Equal(w, []int{0}, w.settle(identity, 1, end("q", "a", job.Done())).Lost)
			require.Equal(w, []string{"a"}, w.list(w.keys.Working("q", holder)))
			require.Equal(w, []string{"a"}, w.list(w.keys.Working("r", identity)))
		}},
		promise{"removes_exactly_one_of_two_identical_entries", func(w *world) {
			identity := w.hold("twin", "b", "twin")
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "twin", job.Done())))
			require.Equal(w, []string{"twin", "b"}, w.list(w.keys.Working("q", identity)))
			require.Equal(w, []int{1}, w.settle(identity, 2, end("q", "twin", job.Done()), end("q", "twin", job.Done())).Lost)
			w.counted(2, 0)
		}},
		promise{"searches_from_the_end_that_the_jobs_are_nearer_to", func(w *world) {
			identity := w.hold("twin", "b", "twin", "c")
			batch := w.settlement(identity, 1, end("q", "twin", job.Done()))
			batch.NearNewest = func(jobs []Settled) bool { return jobs[0].Bytes == "twin" }
			require.Equal(w, allSettled, ask(w, w.keys.Settle(batch)))
			require.Equal(w, []string{"c", "b", "twin"}, w.list(w.keys.Working("q", identity)), "the newest job is the first")

			w.holdMore(identity, "r", "d", "e", "d")
			batch = w.settlement(identity, 2, end("q", "c", job.Requeued()), end("r", "d", job.Done()), end("q", "b", job.Requeued()))
			var asked [][]string
			batch.NearNewest = func(jobs []Settled) bool {
				var group []string
				for _, settled := range jobs {
					group = append(group, settled.Bytes)
				}
				asked = append(asked, group)
				return jobs[0].Queue == "q"
			}
			require.Equal(w, allSettled, ask(w, w.keys.Settle(batch)))
			require.Equal(w, [][]string{{"c", "b"}, {"d"}}, asked, "for each list")
			require.Equal(w, []string{"d", "e"}, w.list(w.keys.Working("r", identity)))
			require.Equal(w, []string{"b", "c"}, w.waiting("q"), "in the order given, whichever end it is")
		}},
		promise{"two_identical_entries_are_two_in_a_set", func(w *world) {
			twins, ends := make([]string, MaxItems), make([]Settled, MaxItems)
			for i := range twins {
				twins[i], ends[i] = "{}", end("q", "{}", job.Snoozed("{}", time.Duration(i)*time.Hour))
			}
			identity := w.hold(twins...)
			before := w.now()
			require.Equal(w, allSettled, w.settle(identity, 1, ends...))
			w.holdMore(identity, "q", "{}")
			require.Equal(w, allSettled, w.settle(identity, 2, end("q", "{}", job.Snoozed("{}", MaxItems*time.Hour))))
			after := w.now()
			members := w.sorted(w.keys.Schedule())
			require.Len(w, members, MaxItems+1)
			for hours, member := range members {
				require.Equal(w, "{}", strings.TrimRight(member, " \t"))
				later := float64(hours * 3600)
				w.within(before+later, w.score(w.keys.Schedule(), member), after+later)
			}
		}},
		promise{"the_same_number_again_answers_the_same_and_writes_nothing", func(w *world) {
			identity := w.hold("a", "b", "c")
			batch := w.settlement(identity, 1,
				end("q", "a", job.Done()), end("q", "lost1", job.Done()), end("q", "b", job.Retried("b'", 0)),
				end("q", "lost2", job.Requeued()), end("q", "c", job.Requeued()))
			first := ask(w, w.keys.Settle(batch))
			require.Len(w, first.Lost, 2)
			w.unchanged(func() { require.Equal(w, first, ask(w, w.keys.Settle(batch))) })
		}},
		promise{"answers_late_for_every_number_from_the_mark_up", func(w *world) {
			identity := w.process("q")
			batches := make([]Settlement, MaxUnread)
			for i := range batches {
				batches[i] = w.settlement(identity, int64(i+1), end("q", "lost", job.Done()))
				batches[i].Mark = 1
				require.Equal(w, []int{0}, ask(w, w.keys.Settle(batches[i])).Lost)
			}
			w.unchanged(func() {
				for i := range batches {
					require.Equal(w, []int{0}, ask(w, w.keys.Settle(batches[i])).Lost)
				}
			})
		}},
		promise{"executes_a_number_that_comes_after_a_higher_one", func(w *world) {
			identity := w.hold("a", "b")
			second := w.settlement(identity, 2, end("q", "b", job.Done()))
			second.Mark = 1
			require.Equal(w, allSettled, ask(w, w.keys.Settle(second)))
			require.Equal(w, allSettled, w.settle(identity, 1, end("q", "a", job.Done())))
			w.counted(2, 0)
		}},
		promise{"a_number_below_the_mark_is_refused", func(w *world) {
			identity := w.hold("a", "b")
			w.settle(identity, 5, end("q", "a", job.Done()))
			w.unchanged(func() {
				require.Equal(w, SettleVerdict{Word: SettleRefused}, w.settle(identity, 4, end("q", "b", job.Done())))
			})
		}},
		promise{"the_mark_never_goes_back", func(w *world) {
			identity := w.process("q")
			w.settle(identity, 5)
			late := w.settlement(identity, 6)
			late.Mark = 2
			ask(w, w.keys.Settle(late))
			require.Equal(w, SettleRefused, w.settle(identity, 4).Word)
		}},
		promise{"what_lies_in_the_list_of_a_process_that_Redis_has_forgotten_is_still_its_own_to_end", func(w *world) {
			identity := w.hold("a")
			w.redis("DEL", w.keys.Record(identity))
			settle := func() SettleVerdict { return w.settle(identity, 1, end("q", "a", job.Retried("a'", 0))) }
			require.Equal(w, SettleVerdict{Word: SettleSettled}, settle())
			require.Equal(w, []string{"a'"}, w.sorted(w.keys.Retry()))
			require.Zero(w, w.number("EXISTS", w.keys.Record(identity)), "only register makes a record")
			w.unchanged(func() {
				require.Equal(w, SettleVerdict{Word: SettleSettled, Lost: []int{0}}, settle())
			})
		}},
		promise{"a_destination_of_a_wrong_type_is_refused_before_anything_is_written", func(w *world) {
			identity := w.hold("a", "b")
			for key, outcome := range map[string]job.Outcome{
				w.keys.Retry(): job.Retried("b'", 0), w.keys.Schedule(): job.Snoozed("b'", 0),
				w.keys.Dead(): job.Died("b'"), w.keys.Queue("q"): job.Requeued(),
			} {
				w.redis("SET", key, "neither list nor set")
				w.unchanged(func() {
					batch := w.settlement(identity, 1, end("q", "a", job.Done()), end("q", "b", outcome))
					refused(w, "WRONGTYPE", w.keys.Settle(batch))
				})
				w.redis("DEL", key)
			}
			require.Equal(w, []string{"b", "a"}, w.list(w.keys.Working("q", identity)))
		}},
		promise{"a_working_list_that_is_no_list_is_refused_before_anything_is_written", func(w *world) {
			identity := w.hold("a")
			w.redis("SET", w.keys.Working("r", identity), "no list")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Settle(w.settlement(identity, 1, end("q", "a", job.Done()), end("r", "b", job.Done()))))
			})
		}},
		promise{"keeps_no_verdict_longer_than_it_may_be_asked_for", func(w *world) {
			identity := w.process("q")
			before := w.number("HLEN", w.keys.Record(identity))
			for number := int64(1); number <= 100; number++ {
				batch := w.settlement(identity, number, end("q", "lost", job.Done()))
				batch.Mark = max(1, number-MaxUnread+1)
				ask(w, w.keys.Settle(batch))
			}
			require.Equal(w, before+MaxUnread, w.number("HLEN", w.keys.Record(identity)))
		}},
		promise{"costs_no_more_where_the_record_is_far_behind", func(w *world) {
			identity := w.hold("a")
			batch := w.settlement(identity, 1<<40, end("q", "a", job.Done()))
			require.Equal(w, allSettled, ask(w, w.keys.Settle(batch)), "within the time that a call has")
			w.unchanged(func() { require.Equal(w, allSettled, ask(w, w.keys.Settle(batch))) })
		}},
		promise{"one_batch_may_hold_jobs_of_several_queues_and_every_exit", func(w *world) {
			identity := w.process("q", "r")
			w.holdMore(identity, "q", "a", "b", "c")
			w.holdMore(identity, "r", "d", "e", "f")
			require.Equal(w, allSettled, w.settle(identity, 1,
				end("r", "f", job.Requeued()), end("q", "a", job.Retried("a'", 0)), end("q", "c", job.Requeued()),
				end("r", "d", job.Done()), end("q", "b", job.Died("b'")), end("r", "e", job.Snoozed("e'", 0))))
			require.Equal(w, []string{"c"}, w.waiting("q"))
			require.Equal(w, []string{"f"}, w.waiting("r"))
			require.Equal(w, []string{"a'"}, w.sorted(w.keys.Retry()))
			require.Equal(w, []string{"b'"}, w.sorted(w.keys.Dead()))
			require.Equal(w, []string{"e'"}, w.sorted(w.keys.Schedule()))
			w.counted(3, 2)
		}},
		promise{"a_tombstoned_process_may_end_what_was_not_moved", func(w *world) {
			identity := w.hold("a", "b", "c")
			w.lapse(identity)
			ask(w, w.keys.Recover(identity, []string{"q"}, []Orphans{{Queue: "q", Entries: []Orphan{{Old: "b", New: "b"}}}}, w.today))
			verdict := w.settle(identity, 1, end("q", "a", job.Done()), end("q", "b", job.Done()), end("q", "c", job.Done()))
			require.Equal(w, []int{1}, verdict.Lost)
			require.Equal(w, []string{"b"}, w.waiting("q"))
			require.Empty(w, w.list(w.keys.Working("q", identity)))
		}},
	)
}

// counted requires these totals, and the same of today.
// The script knows exits by their names. It must mean by them what the table in package job says.
func TestSettleMeansByAnExitWhatItsTableSays(t *testing.T) {
	outcomes := map[job.Exit]job.Outcome{
		job.ExitDone: job.Done(), job.ExitRetry: job.Retried("new", time.Hour), job.ExitDead: job.Died("new"),
		job.ExitDiscarded: job.Discarded(true), job.ExitCancelled: job.Cancelled(), job.ExitExpired: job.Expired(false),
		job.ExitSnoozed: job.Snoozed("new", time.Hour), job.ExitRequeued: job.Requeued(),
		job.ExitWaits: job.Waits(time.Hour),
	}
	for _, exit := range job.Exits {
		t.Run(string(exit), func(t *testing.T) {
			keep(t, promise{"of_the_lock_the_bytes_and_the_counters", func(w *world) {
				outcome := outcomes[exit]
				require.Equal(w, exit, outcome.Exit())
				w.unique("a")
				require.Equal(w, allSettled, w.settle(w.begin(false), 1, gated(locked(outcome, nil))))
				require.Equal(w, exit.Ends(), w.number("EXISTS", w.keys.Lock("d")) == 0, "its lock")
				stored := append(append(w.sorted(w.keys.Retry()), w.sorted(w.keys.Schedule())...), w.sorted(w.keys.Dead())...)
				stored = append(stored, w.waiting("q")...)
				for _, entry := range w.list(w.keys.WaitingList("l:k")) {
					require.Equal(w, job.ExitWaits, exit)
					stored = append(stored, ParseWaiter(entry).Bytes)
				}
				switch {
				case exit.Carries():
					require.Equal(w, []string{"new"}, stored)
				case exit.Ends():
					require.Empty(w, stored)
				default:
					require.Equal(w, []string{"a"}, stored)
				}
				processed, failed := outcome.Counts()
				count := map[bool]int{true: 1}
				w.counted(count[processed], count[failed])
			}})
		})
	}
}

func (w *world) counted(processed, failed int) {
	w.Helper()
	for key, want := range map[string]int{
		w.keys.Processed(): processed, w.keys.ProcessedOn(w.today): processed,
		w.keys.Failed(): failed, w.keys.FailedOn(w.today): failed,
	} {
		require.Equal(w, want, w.counter(key), key)
	}
}

// within allows for the microseconds by which jobs of a batch differ.
func (w *world) within(least, score, most float64) {
	w.Helper()
	require.GreaterOrEqual(w, score, least)
	require.LessOrEqual(w, score, most+1e-3)
}

// addDead puts old0, old1 ... among the dead, a millisecond apart.
func (w *world) addDead(count int, at float64) {
	w.Helper()
	words := []string{"ZADD", w.keys.Dead()}
	for i := range count {
		words = append(words, fmt.Sprintf("%f", at+float64(i)/1000), fmt.Sprintf("old%d", i))
	}
	w.redis(words...)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	done, back := job.Done(), job.Requeued()
	jobs := []Settled{
		end("q", "1", done), end("r", "2", done), end("q", "3", back), end("q", "4", done),
		end("q", "5", back), end("r", "6", done), end("q", "7", done), end("q", "8", job.Discarded(true)),
		end("q", "9", job.Discarded(false)), end("q", "10", job.Discarded(true)),
	}
	var order []string
	for range 2 {
		order = nil
		for group, like := range groups(jobs) {
			for i := range like {
				require.Equal(t, group, groupOf(&like[i]))
				order = append(order, like[i].Bytes)
			}
		}
		require.Equal(t, []string{"1", "4", "7", "2", "6", "3", "5", "8", "10", "9"}, order,
			"each group where its first stood, in its own order, and the same when grouped again")
	}
	for range groups(nil) {
		t.Fatal("no job is in no group")
	}
}
