package lua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// define registers one definition by a process or, without an identity, by an operator.
func (w *world) define(by Registrar, name, digest, schedule string) string {
	w.Helper()
	words := ask(w, w.keys.Define(by, []Definition{{name, digest, schedule, "text of " + digest}}))
	require.Len(w, words, 1)
	return words[0]
}

// inForce is the digest of the definition that is in force, and who registered it.
func (w *world) inForce(name string) (digest, identity string) {
	w.Helper()
	_, jobs, err := ReadPeriodicStored([]string{name}, w.client.Do(w.Context(), w.keys.PeriodicStored([]string{name})...))
	require.NoError(w, err)
	return jobs[0].Definition.Digest, jobs[0].By.Identity
}

func (w *world) lastTick(name string) string {
	w.Helper()
	text, _ := w.redis("HGET", w.keys.PeriodicLast(), name).(string)
	return text
}

func (w *world) nextTick(name string) string {
	w.Helper()
	text, _ := w.redis("ZSCORE", w.keys.Periodic(), name).(string)
	return text
}

// tickNow is a tick that is due, after the last one.
func (w *world) tickNow(name, tick string, j *TickJob) Ticked {
	w.Helper()
	digest, _ := w.inForce(name)
	return ask(w, w.keys.Tick(Plan{Name: name, Digest: digest, State: PlanRunning, Expected: w.lastTick(name), Last: tick, Next: "99999999999"}, j))
}

func TestDefine(t *testing.T) {
	day := time.UnixMilli(1_800_000_000_000)
	keep(t,
		promise{"counts_the_ticks_of_a_new_schedule_from_now", func(w *world) {
			before := w.clock().UnixMilli()
			require.Equal(w, DefineStored, w.define(Registrar{}, "n", "a1", "s1"))
			after := w.clock().UnixMilli()
			ms, err := strconv.ParseInt(strings.TrimPrefix(w.lastTick("n"), "since "), 10, 64)
			require.NoError(w, err)
			require.GreaterOrEqual(w, ms, before)
			require.LessOrEqual(w, ms, after)
			due := ask(w, w.keys.Due(w.keys.Periodic(), 0, MaxBytes, 1000))
			require.Equal(w, []string{"n"}, due.Jobs, "the poller plans it at once")
		}},
		promise{"keeps_the_last_tick_and_the_plan_of_what_is_the_same", func(w *world) {
			me := Registrar{w.process("q"), day}
			w.define(me, "n", "a1", "s1")
			require.Equal(w, TickPlanned, w.tickNow("n", "2026-01-01T00:00:00Z", nil).Word)
			require.Equal(w, DefineSame, w.define(me, "n", "a1", "s1"))
			require.Equal(w, "99999999999", w.nextTick("n"))
			require.Equal(w, DefineStored, w.define(me, "n", "a2", "s1"))
			require.Equal(w, "2026-01-01T00:00:00Z", w.lastTick("n"), "other arguments fire no tick twice, and none is lost")
			require.NotEqual(w, "99999999999", w.nextTick("n"), "and it is planned anew")
			require.Equal(w, TickPlanned, w.tickNow("n", "", nil).Word)
			require.Equal(w, DefineStored, w.define(me, "n", "a3", "s2"))
			require.Contains(w, w.lastTick("n"), "since ")
		}},
		promise{"leaves_a_schedule_with_a_due_tick_until_the_tick_is_fired", func(w *world) {
			for _, by := range []Registrar{{w.process("q"), day}, {}} {
				code := Registrar{w.process("q"), day.Add(-time.Hour)}
				w.redis("DEL", w.keys.PeriodicDefinitions(), w.keys.Periodic(), w.keys.PeriodicLast(), w.keys.PeriodicSeen())
				w.define(code, "n", "a1", "s1")
				w.tickNow("n", "2026-01-01T00:00:00Z", nil)
				w.redis("ZADD", w.keys.Periodic(), "1", "n")
				require.Equal(w, DefineDue, w.define(by, "n", "b", "s2"))
				digest, identity := w.inForce("n")
				require.Equal(w, []string{"a1", code.Identity, "2026-01-01T00:00:00Z", "1"}, []string{digest, identity, w.lastTick("n"), w.nextTick("n")})
				require.Len(w, w.sorted(w.keys.PeriodicSeen()), 1, "it is an orphan if its code is gone")
				require.Equal(w, TickPlanned, w.tickNow("n", "2026-01-02T00:00:00Z", nil).Word)
				require.Equal(w, DefineStored, w.define(by, "n", "b", "s2"))
				require.Contains(w, w.lastTick("n"), "since ")
			}
		}},
		promise{"lets_the_live_process_decide_that_started_last", func(w *world) {
			old, young := Registrar{w.process("q"), day}, Registrar{w.process("q"), day.Add(time.Millisecond)}
			require.Equal(w, DefineStored, w.define(old, "n", "old", "s"))
			require.Equal(w, DefineStored, w.define(young, "n", "young", "s"))
			require.Equal(w, DefineKept, w.define(old, "n", "old", "s"))
			digest, identity := w.inForce("n")
			require.Equal(w, "young", digest)
			require.Equal(w, young.Identity, identity)
			require.Equal(w, DefineSame, w.define(old, "n", "young", "s"), "two processes of one version")
			_, identity = w.inForce("n")
			require.Equal(w, young.Identity, identity)
			w.lapse(young.Identity)
			require.Equal(w, DefineStored, w.define(old, "n", "old", "s"), "it rules no more")
		}},
		promise{"decides_between_two_that_started_together", func(w *world) {
			a, b := Registrar{w.process("q"), day}, Registrar{w.process("q"), day}
			if a.Identity > b.Identity {
				a, b = b, a
			}
			w.define(b, "n", "b", "s")
			require.Equal(w, DefineKept, w.define(a, "n", "a", "s"))
			require.Equal(w, DefineSame, w.define(b, "n", "b", "s"))
		}},
		promise{"prefers_an_operators_definition", func(w *world) {
			code := Registrar{w.process("q"), day}
			w.define(code, "n", "code", "s")
			require.Equal(w, DefineStored, w.define(Registrar{}, "n", "hand", "s"))
			require.Equal(w, DefineKept, w.define(code, "n", "code", "s"))
			digest, identity := w.inForce("n")
			require.Equal(w, "hand", digest)
			require.Empty(w, identity)
			require.Empty(w, w.sorted(w.keys.PeriodicSeen()), "it is no orphan of code")
		}},
		promise{"leaves_a_paused_job_paused", func(w *world) {
			w.define(Registrar{}, "m", "a", "s1")
			ask(w, w.keys.Tick(Plan{Name: "m", Digest: "a", State: PlanAny, Next: PlanNever}, nil))
			w.define(Registrar{}, "m", "b", "s2")
			require.Equal(w, "inf", strings.ToLower(strings.TrimPrefix(w.nextTick("m"), "+")))
		}},
	)
}

func TestUndefine(t *testing.T) {
	keep(t,
		promise{"removes_all_of_it_once", func(w *world) {
			w.define(Registrar{}, "m", "a", "s")
			w.tickNow("m", "2026-01-01T00:00:00Z", &TickJob{Queue: "q", JID: "j", Nominal: "x", Bytes: "job"})
			require.Equal(w, UndefineRemoved, ask(w, w.keys.Undefine("m")))
			require.Equal(w, UndefineUnknown, ask(w, w.keys.Undefine("m")))
			for _, key := range []string{w.keys.Periodic(), w.keys.PeriodicDefinitions(), w.keys.PeriodicLast(), w.keys.PeriodicRuns("m")} {
				require.Equal(w, 0, w.number("EXISTS", key), key)
			}
			require.Equal(w, []string{"job"}, w.waiting("q"))
		}},
		promise{"keeps_what_a_live_process_has_in_its_code", func(w *world) {
			me := Registrar{w.process("q"), time.UnixMilli(1)}
			w.define(me, "n", "a", "s")
			require.Equal(w, UndefineRegistered, ask(w, w.keys.Undefine("n")))
			require.Equal(w, UndefineRegistered, ask(w, w.keys.UndefineOrphan("n", 99999)))
			w.lapse(me.Identity)
			require.Equal(w, UndefineRemoved, ask(w, w.keys.Undefine("n")))
		}},
		promise{"keeps_what_was_seen_since", func(w *world) {
			me := Registrar{w.process("q"), time.UnixMilli(1)}
			w.redis("SET", w.keys.PeriodicUptime(), "500")
			w.define(me, "n", "a", "s")
			w.lapse(me.Identity)
			require.Equal(w, UndefineRegistered, ask(w, w.keys.UndefineOrphan("n", 499)))
			require.Equal(w, UndefineRemoved, ask(w, w.keys.UndefineOrphan("n", 500)))
		}},
		promise{"keeps_an_operators_from_being_an_orphan", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			require.Equal(w, UndefineRegistered, ask(w, w.keys.UndefineOrphan("n", 1<<40)))
		}},
	)
}

func TestTick(t *testing.T) {
	tick := "2026-03-29T03:00:00+02:00"
	keep(t,
		promise{"stores_the_job_and_notes_the_tick_once", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			call := w.keys.Tick(Plan{Name: "n", Digest: "a", State: PlanRunning, Expected: w.lastTick("n"), Last: tick, Next: "99999999999"},
				&TickJob{Queue: "q", JID: "jid", Nominal: tick, Bytes: "job", DueAt: w.clock()})
			require.Equal(w, Ticked{TickEnqueued, ""}, ask(w, call))
			w.unchanged(func() { require.Equal(w, Ticked{TickStale, ""}, ask(w, call)) })
			require.Equal(w, []string{"job"}, w.waiting("q"))
			require.Equal(w, []string{"q"}, w.texts("SMEMBERS", w.keys.Queues()))
			require.Equal(w, tick, w.lastTick("n"))
			require.Equal(w, "99999999999", w.nextTick("n"))
			require.Regexp(w, `^2026-03-29T03:00:00\+02:00 \d{13} enqueued jid$`, w.list(w.keys.PeriodicRuns("n"))[0])
		}},
		promise{"is_never_early_by_redis_clock", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			early := &TickJob{Queue: "q", JID: "jid", Nominal: tick, Bytes: "job", DueAt: w.clock().Add(time.Minute)}
			w.unchanged(func() { require.Equal(w, TickEarly, w.tickNow("n", tick, early).Word) })
		}},
		promise{"notes_the_tick_of_a_job_that_is_refused", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			lock := &Lock{Digest: strings.Repeat("0", 32), Owner: OwnerOf("first", "C"), Hold: time.Hour}
			require.Equal(w, TickEnqueued, w.tickNow("n", tick, &TickJob{Queue: "q", JID: "first", Nominal: tick, Bytes: "job", Lock: lock}).Word)
			otherLock := *lock
			otherLock.Owner = OwnerOf("second", "C")
			next := "2026-03-30T03:00:00+02:00"
			require.Equal(w, Ticked{TickRefused, "first"}, w.tickNow("n", next, &TickJob{Queue: "q", JID: "second", Nominal: next, Bytes: "job 2", Lock: &otherLock}))
			require.Equal(w, next, w.lastTick("n"))
			require.Equal(w, []string{"job"}, w.waiting("q"))
			require.Regexp(w, `refused first$`, w.list(w.keys.PeriodicRuns("n"))[0])
			require.Equal(w, "1", w.redis("GET", w.keys.Refusals()))
			require.Equal(w, lock.Digest, w.sorted(w.keys.Unique())[0])
		}},
		promise{"lets_a_tick_wait_for_the_job_that_holds_the_lock", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			lock := &Lock{Digest: strings.Repeat("0", 32), Owner: OwnerOf("first", "C"), Hold: time.Hour}
			require.Equal(w, TickEnqueued, w.tickNow("n", tick, &TickJob{Queue: "q", JID: "first", Nominal: tick, Bytes: "job", Lock: lock}).Word)
			otherLock := *lock
			otherLock.Owner = OwnerOf("second", "C")
			next := "2026-03-30T03:00:00+02:00"
			second := TickJob{Queue: "q", JID: "second", Nominal: next, Bytes: "job 2", Lock: &otherLock}
			for _, c := range []struct {
				due           time.Duration // after the first one took the lock
				before, after bool
				want          string
			}{
				{time.Millisecond, true, false, TickWaits}, {time.Millisecond, true, true, TickWaits},
				{-time.Second, false, true, TickWaits}, {-time.Second, true, true, TickWaits},
			} {
				taken, _ := HolderOf(w.redis("GET", w.keys.Lock(lock.Digest)).(string))
				time.Sleep(2 * time.Millisecond) // so that the tick is due
				second.DueAt, second.WaitsBefore, second.WaitsAfter = taken.Since.Add(c.due), c.before, c.after
				before := w.now()
				require.Equal(w, Ticked{c.want, "first"}, w.tickNow("n", next, &second))
				require.Equal(w, tick, w.lastTick("n"), "it does not count yet")
				planned, err := strconv.ParseFloat(w.nextTick("n"), 64)
				require.NoError(w, err)
				w.within(before, planned, w.now()+2.1)
			}
			require.Len(w, w.list(w.keys.PeriodicRuns("n")), 1)
			second.WaitsBefore = false
			second.WaitsAfter = false
			require.Equal(w, TickRefused, w.tickNow("n", next, &second).Word)
			require.Equal(w, next, w.lastTick("n"))
			require.Equal(w, []string{"job"}, w.waiting("q"))
		}},
		promise{"does_nothing_for_another_definition_or_a_paused_or_removed_one", func(w *world) {
			j := &TickJob{Queue: "q", JID: "jid", Nominal: tick, Bytes: "job"}
			w.unchanged(func() { require.Equal(w, TickStale, w.tickNow("n", tick, j).Word) })
			w.define(Registrar{}, "n", "a", "s")
			w.unchanged(func() {
				plan := Plan{Name: "n", Digest: "b", State: PlanRunning, Expected: w.lastTick("n"), Last: tick}
				require.Equal(w, TickStale, ask(w, w.keys.Tick(plan, j)).Word)
			})
			ask(w, w.keys.Tick(Plan{Name: "n", Digest: "a", State: PlanAny, Next: PlanNever}, nil))
			w.unchanged(func() { require.Equal(w, TickStale, w.tickNow("n", tick, j).Word) })
			resume := Plan{Name: "n", Digest: "a", State: PlanPaused, Last: PlanNow, Next: PlanNow}
			require.Equal(w, TickPlanned, ask(w, w.keys.Tick(resume, nil)).Word)
			w.unchanged(func() { require.Equal(w, TickStale, ask(w, w.keys.Tick(resume, nil)).Word, "a double click") })
		}},
		promise{"remembers_the_last_runs_only", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			for i := range MaxRuns + 3 {
				at := time.Unix(int64(i), 0).UTC().Format(time.RFC3339)
				require.Equal(w, TickEnqueued, w.tickNow("n", at, &TickJob{Queue: "q", JID: strconv.Itoa(i), Nominal: at, Bytes: at}).Word)
			}
			runs := w.list(w.keys.PeriodicRuns("n"))
			require.Len(w, runs, MaxRuns)
			require.Regexp(w, `enqueued 27$`, runs[0])
		}},
		promise{"writes_nothing_where_the_queue_is_no_list", func(w *world) {
			w.define(Registrar{}, "n", "a", "s")
			w.redis("SET", w.keys.Queue("q"), "text")
			last := w.lastTick("n")
			w.unchanged(func() {
				refused(w, "WRONGTYPE", w.keys.Tick(Plan{Name: "n", Digest: "a", State: PlanRunning, Expected: last, Last: tick, Next: "9"},
					&TickJob{Queue: "q", JID: "jid", Nominal: tick, Bytes: "job"}))
			})
		}},
	)
}

// clock is Redis' time.
func (w *world) clock() time.Time { return time.UnixMicro(int64(w.now() * 1e6)) }
