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

// rule stores a rule, and requires that it is new.
func (w *world) rule(rule ClassRule) Gate {
	w.Helper()
	require.Equal(w, ClassRuleStored, ask(w, w.keys.SetClassRule(rule)))
	return rule.Gate()
}

// readRules reads the rules if a heartbeat reports an event.
func (w *world) readRules(rules *ClassRules, marks *Marks, identity string) (changed []ClassRule, removed []string) {
	w.Helper()
	if !marks.Notice(ask(w, w.keys.Heartbeat(identity, someTTL)).Marked) {
		return nil, nil
	}
	w.read(marks, identity)
	changed, removed, err := rules.Read(w.Context(), w.client, w.keys)
	require.NoError(w, err)
	slices.SortFunc(changed, func(a, b ClassRule) int { return strings.Compare(a.Class, b.Class) })
	return changed, removed
}

func TestClassRules(t *testing.T) {
	paused, two, dropped := ClassRule{Class: "A"}, ClassRule{Class: "A", Concurrency: 2}, ClassRule{Class: "A", Drop: true}
	keep(t,
		promise{"are_read_after_a_heartbeat_and_cost_nothing_before", func(w *world) {
			rules, marks, identity := &ClassRules{}, &Marks{}, w.process("q")
			a, ruby := created(w, "1", time.Now()), railsJob(w, "Reports::Daily")
			changed, _ := w.readRules(rules, marks, identity)
			require.Empty(w, changed)
			require.False(w, rules.Any())
			require.Nil(w, rules.Gate(a, true))
			w.rule(two)
			w.rule(ClassRule{Class: "Reports::Daily", Drop: true})
			changed, removed := w.readRules(rules, marks, identity)
			require.Equal(w, []ClassRule{two, {Class: "Reports::Daily", Drop: true}}, changed)
			require.Empty(w, removed)
			require.Equal(w, two.Gate(), *rules.Gate(a, false))
			require.False(w, rules.Drops(a))
			require.True(w, rules.Drops(ruby), "by the class that it wraps")
			require.Equal(w, ClassRuleRemoved, ask(w, w.keys.RemoveClassRule("Reports::Daily")))
			w.rule(paused)
			changed, removed = w.readRules(rules, marks, identity)
			require.Equal(w, []ClassRule{paused}, changed)
			require.Equal(w, []string{"Reports::Daily"}, removed)
			require.Equal(w, ClassRuleRemoved, ask(w, w.keys.RemoveClassRule("A")))
			w.readRules(rules, marks, identity)
			require.False(w, rules.Any())
			require.Nil(w, rules.Gate(a, true))
		}},
		promise{"change_nothing_the_second_time", func(w *world) {
			for _, rule := range []ClassRule{paused, two, dropped} {
				w.rule(rule)
				w.unchanged(func() { require.Equal(w, ClassRuleSame, ask(w, w.keys.SetClassRule(rule))) })
			}
			require.Equal(w, ClassRuleRemoved, ask(w, w.keys.RemoveClassRule("A")))
			w.unchanged(func() { require.Equal(w, ClassRuleUnknown, ask(w, w.keys.RemoveClassRule("A"))) })
			require.Equal(w, int64(0), w.redis("EXISTS", w.keys.Classes(), w.keys.Limits()))
		}},
		promise{"leave_the_marks_of_jobs_alone", func(w *world) {
			marks, identity := &Marks{}, w.process("q")
			at := ask(w, w.keys.Mark([]Mark{{JID: "a"}}))
			w.redis("ZADD", w.keys.Cancelled(), strconv.FormatInt(at.Add(time.Hour).UnixMicro(), 10), "") // the clock was set back
			w.rule(paused)
			require.Greater(w, ask(w, w.keys.NewestMark()), at.Add(time.Hour).UnixMicro(), "newer than all before")
			w.read(marks, identity)
			require.True(w, marks.Binds(created(w, "a", at)))
		}},
		promise{"are_bounded", func(w *world) {
			for n := range MaxClassRules {
				w.redis("HSET", w.keys.Classes(), strconv.Itoa(n), "drop")
			}
			w.unchanged(func() { refused(w, FullCode, w.keys.SetClassRule(paused)) })
			require.Equal(w, ClassRuleStored, ask(w, w.keys.SetClassRule(ClassRule{Class: "0", Concurrency: 1})))
		}},
		promise{"pause_a_class", func(w *world) {
			gate, identity := w.rule(paused), w.process("q")
			require.Equal(w, Started{Parked: []int{0, 1}}, w.enter(identity, &gate, "a", "b"))
			w.pollGates()
			require.Equal(w, []string{"q/a", "q/b"}, w.waiters(&gate))
		}},
		promise{"limit_a_class_and_another_size_counts_at_once", func(w *world) {
			gate, identity := w.rule(two), w.process("q")
			require.Equal(w, Started{Parked: []int{2, 3}}, w.enter(identity, &gate, "a", "b", "c", "d"))
			w.rule(ClassRule{Class: "A", Concurrency: 3})
			w.pollGates()
			require.Equal(w, [3]int{2, 1, 1}, w.counts(&gate))
			w.rule(paused)
			require.Equal(w, allSettled, w.endGated(identity, 1, &gate, job.Done(), "a", "b"))
			require.Equal(w, [3]int{0, 1, 1}, w.counts(&gate))
		}},
		promise{"let_all_waiters_go_in_their_order_when_they_end", func(w *world) {
			for _, end := range []Ask[ClassRuleWord]{w.keys.RemoveClassRule("A"), w.keys.SetClassRule(dropped)} {
				gate, identity := w.rule(paused), w.process("q")
				require.Len(w, w.enter(identity, &gate, "a", "b", "c").Parked, 3)
				ask(w, end)
				w.pollGates()
				require.Equal(w, []string{"c", "b", "a"}, w.list(w.keys.Queue("q")))
				require.Equal(w, [3]int{}, w.counts(&gate))
				require.Equal(w, int64(0), w.redis("EXISTS", w.keys.Admitted(), w.keys.Waiting()))
				w.redis("DEL", w.keys.Queue("q"))
			}
		}},
		promise{"hold_jobs_that_their_gate_has_admitted", func(w *world) {
			identity := w.process("q")
			for n, end := range []Ask[ClassRuleWord]{w.keys.SetClassRule(paused), w.keys.RemoveClassRule("A"), w.keys.SetClassRule(dropped)} {
				gate := w.rule(two)
				gate.Size.Paused = true // the class has a limit of its own
				require.Len(w, w.enter(identity, &gate, "a", "b", "c", "d").Parked, 2)
				w.endGated(identity, int64(n)+1, &gate, job.Done(), "a", "b")
				require.Equal(w, [3]int{0, 2, 0}, w.counts(&gate))
				w.take(identity, 2, "q")
				ask(w, end) // which the process has not read
				before := w.now()
				require.Equal(w, Started{Parked: []int{0, 1}}, ask(w, w.keys.Start(identity, startsOf("q", &gate, "c", "d"))))
				require.Equal(w, [3]int{0, 0, 2}, w.counts(&gate))
				require.Equal(w, []string{"q/c", "q/d"}, w.waiters(&gate))
				require.Greater(w, w.score(w.keys.Waiting(), gate.Name), before+0.99, "the poller does not look at once")
				w.redis("DEL", w.keys.WaitingList(gate.Name), w.keys.Waiting())
			}
		}},
		// A process learns with its next heartbeat that a rule is gone.
		promise{"end_for_processes_that_still_ask_its_gate", func(w *world) {
			gate, identity := w.rule(paused), w.process("q")
			require.Len(w, w.enter(identity, &gate, "a").Parked, 1)
			ask(w, w.keys.RemoveClassRule("A"))
			require.Equal(w, Started{}, w.enter(identity, &gate, "b", "c"))
			require.Equal(w, int64(0), w.redis("EXISTS", w.keys.Limits()), "a start has stored a size")
			w.pollGates()
			require.Equal(w, []string{"a"}, w.list(w.keys.Queue("q")))
			require.Equal(w, allSettled, w.endGated(identity, 1, &gate, job.Done(), "b", "c"))
			require.Equal(w, [3]int{}, w.counts(&gate))
		}},
		promise{"end_not_before_the_limit_of_the_program_is_asked", func(w *world) {
			rules, marks, identity := &ClassRules{}, &Marks{}, w.process("q")
			for _, rule := range []ClassRule{paused, dropped} {
				w.rule(rule)
				w.readRules(rules, marks, identity)
				ask(w, w.keys.RemoveClassRule("A"))
				gate := rules.Gate(created(w, "a", time.Now()), true)
				require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, gate, "a"))
				require.Equal(w, int64(0), w.redis("EXISTS", w.keys.Limits()), "a start has stored a size")
				w.redis("ZADD", w.keys.Waiting(), "1", gate.Name) // a second has passed
				w.pollGates()
				require.Equal(w, []TakenJobs{{Queue: 0, Bytes: []string{"a"}}}, w.take(identity, 1, "q").Jobs)
				w.readRules(rules, marks, identity)
				require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", gateOf("l:k", 1), "a"))))
				require.Equal(w, allSettled, w.endGated(identity, 1, gateOf("l:k", 1), job.Done(), "a"))
				w.redis("DEL", w.keys.Limits())
			}
		}},
		// A paused class that is dropped runs nothing meanwhile.
		promise{"are_not_run_past_by_processes_that_have_not_read_them", func(w *world) {
			gate, identity := w.rule(paused), w.process("q")
			require.Len(w, w.enter(identity, &gate, "a").Parked, 1)
			drops := w.rule(dropped)
			w.pollGates()
			require.Equal(w, []TakenJobs{{Queue: 0, Bytes: []string{"a"}}}, w.take(identity, 1, "q").Jobs)
			require.Equal(w, Started{Parked: []int{0}}, ask(w, w.keys.Start(identity, startsOf("q", &gate, "a"))))
			w.redis("ZADD", w.keys.Waiting(), "1", gate.Name)
			w.pollGates()
			require.Equal(w, []TakenJobs{{Queue: 0, Bytes: []string{"a"}}}, w.take(identity, 1, "q").Jobs)
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", &drops, "a"))))
			w.rule(paused)
			require.Equal(w, Started{Parked: []int{0}}, w.enter(identity, &drops, "b"))
		}},
		// Of the class' own limit: a dropped job needs no place there, and a limited one waits for the rule.
		promise{"go_before_another_gate", func(w *world) {
			own, identity := gateOf("l:k", 1), w.process("q")
			require.Equal(w, Started{Parked: []int{1, 2}}, w.enter(identity, own, "a", "b", "c"))
			require.Equal(w, allSettled, w.endGated(identity, 1, own, job.Done(), "a"))
			require.Equal(w, [3]int{0, 1, 1}, w.counts(own))
			gate := w.rule(dropped)
			w.redis("ZADD", w.keys.Waiting(), "9999999999", own.Name) // nobody looks at it soon
			require.Equal(w, []TakenJobs{{Queue: 0, Bytes: []string{"b"}}}, w.take(identity, 1, "q").Jobs)
			require.Equal(w, Started{}, ask(w, w.keys.Start(identity, startsOf("q", &gate, "b"))))
			w.pollGates()
			require.Equal(w, [3]int{0, 1, 0}, w.counts(own), "its place went to the next")
			require.Equal(w, []string{"c"}, w.list(w.keys.Queue("q")))
		}},
		promise{"forget_their_admissions", func(w *world) {
			gate, identity := w.rule(ClassRule{Class: "A", Concurrency: 1}), w.process("q")
			require.Equal(w, Started{Parked: []int{1}}, w.enter(identity, &gate, "a", "b"))
			require.Equal(w, allSettled, w.endGated(identity, 1, &gate, job.Done(), "a"))
			require.Equal(w, [3]int{0, 1, 0}, w.counts(&gate))
			ask(w, w.keys.RemoveClassRule("A"))
			require.Equal(w, 1, ask(w, w.keys.Lapse(ask(w, w.keys.Admissions()))))
			require.Equal(w, [3]int{}, w.counts(&gate))
		}},
	)
}

// railsJob is a job of Rails, which wraps a class.
func railsJob(w *world, class string) *job.Job {
	w.Helper()
	parsed, err := job.Parse(`{"class":"Sidekiq::ActiveJob::Wrapper","wrapped":"` + class + `","jid":"1","args":[{}],"queue":"q"}`)
	require.NoError(w, err)
	return parsed
}

func TestClassRulesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, rule := range map[string]ClassRule{"drop": {Class: "A", Drop: true}, "limit 0": {Class: "A"}, "limit 12": {Class: "A", Concurrency: 12}} {
		require.Equal(t, text, rule.String())
		read, err := ParseClassRule("A", text)
		require.NoError(t, err)
		require.Equal(t, rule, read)
	}
	for _, text := range []string{"", "limit", "limit -1", "limit x", "12", "drop it", "throttle 5"} {
		_, err := ParseClassRule("A", text)
		require.Error(t, err, text)
	}
}

func FuzzClassGate(f *testing.F) {
	for _, class := range []string{"A", "Reports::Daily", "with space", "per%cent", "a:b", "a%3Ab", "line\nfeed", "ü", "\xff", "class.A", ""} {
		f.Add(class)
	}
	f.Fuzz(func(t *testing.T, class string) {
		gate := ClassRule{Class: class}.Gate()
		name, key := gate.Limit()
		require.Empty(t, key)
		require.Equal(t, 1, strings.Count(gate.Name, ":"))
		require.NotContains(t, gate.Name, "\n")
		back, ok := ClassOfLimit(name)
		require.True(t, ok)
		require.Equal(t, class, back)
	})
}
