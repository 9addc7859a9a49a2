package lua

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// killers are calls of all scripts that add to the dead set. Each ends the job "new": it dies, and if it is not
// fatal, it does anything else.
var killers = map[string]func(w *world, fatal bool){
	"settle": func(w *world, fatal bool) {
		outcome := job.Done()
		if fatal {
			outcome = job.Died("new")
		}
		require.Equal(w, allSettled, w.settle(w.hold("new"), 1, end("q", "new", outcome)))
	},
	"recover": func(w *world, fatal bool) {
		identity := w.hold("new")
		w.lapse(identity)
		orphans := []Orphans{{Queue: "q", Entries: []Orphan{{Old: "new", New: "new", Home: deadly(fatal)}}}}
		require.Equal(w, 1, ask(w, w.keys.Recover(identity, []string{"q"}, orphans, w.today)).Moved)
	},
	"recover_gitlab": func(w *world, fatal bool) {
		orphans := Orphans{Queue: "q", Entries: []Orphan{{Old: "new", New: "new", Home: deadly(fatal)}}}
		require.Equal(w, 1, ask(w, w.foreign(orphans, "new")).Moved)
	},
	"promote": func(w *world, fatal bool) {
		w.dueAt(w.keys.Retry(), time.Hour, "new")
		due := []Promotions{{Queue: "q", Dead: fatal, Jobs: []Promotion{{Old: "new", New: "new"}}}}
		require.Equal(w, 1, ask(w, w.keys.Promote(w.keys.Retry(), due, w.today)))
	},
	"act": func(w *world, fatal bool) {
		w.dueAt(w.keys.Retry(), time.Hour, "new")
		destination := DestinationNone
		if fatal {
			destination = DestinationDead
		}
		require.Empty(w, ask(w, w.keys.Act(Source{Key: w.keys.Retry()}, groupTo(destination, "new"))))
	},
	"kill_large": func(w *world, fatal bool) {
		identity, bytes := w.hold(tooLarge), tooLarge
		if !fatal {
			bytes = "another"
		}
		large := TooLarge{Large: LargeOf(bytes), Key: w.keys.Working("q", identity), Reason: `"error_class":"Large"`, Around: `"retry":0`, Today: w.today}
		require.Equal(w, fatal, ask(w, w.keys.KillLarge(large)))
	},
}

// foreign recovers jobs of a dead process of another system, which holds these entries.
func (w *world) foreign(orphans Orphans, entries ...string) Ask[Recovered] {
	w.Helper()
	held := w.prefix + ":held"
	w.redis(append([]string{"RPUSH", held}, entries...)...)
	return w.keys.RecoverForeign(foreignScript(w), held, []string{w.prefix + ":heartbeat"}, orphans, w.today)
}

func deadly(fatal bool) Home {
	if fatal {
		return HomeDead
	}
	return HomeQueue
}

func TestAScriptThatAddsToTheDeadSetTrimsIt(t *testing.T) {
	t.Parallel()
	for script, kill := range killers {
		t.Run(script, func(t *testing.T) {
			keep(t,
				promise{"to_its_limit", func(w *world) {
					w.keys = w.keys.WithDeadLimits(DeadLimits{Limit: 5})
					w.addDead(9, w.now()-100)
					kill(w, true)
					dead := w.sorted(w.keys.Dead())
					require.Equal(w, []string{"old5", "old6", "old7", "old8"}, dead[:len(dead)-1])
					require.NotContains(w, dead[4], "old", "the new one")
				}},
				promise{"to_nothing_but_the_new_one", func(w *world) {
					w.keys = w.keys.WithDeadLimits(DeadLimits{Limit: 1})
					w.addDead(9, w.now()-100)
					kill(w, true)
					require.Len(w, w.sorted(w.keys.Dead()), 1)
					require.NotContains(w, w.sorted(w.keys.Dead())[0], "old")
				}},
				promise{"by_age", func(w *world) {
					w.keys = w.keys.WithDeadLimits(DeadLimits{For: time.Hour})
					w.addDead(3, w.now()-7200)
					w.redis("ZADD", w.keys.Dead(), fmt.Sprintf("%f", w.now()-1800), "young")
					kill(w, true)
					require.Len(w, w.sorted(w.keys.Dead()), 2)
					require.Equal(w, "young", w.sorted(w.keys.Dead())[0])
				}},
				promise{"at_most_a_call's_worth_at_a_time", func(w *world) {
					w.keys = w.keys.WithDeadLimits(DeadLimits{Limit: 10})
					w.addDead(1000, w.now()-100)
					kill(w, true)
					require.Equal(w, 1001-MaxItems, w.number("ZCARD", w.keys.Dead()))
				}},
				promise{"to_sidekiqs_limits_without_others", func(w *world) {
					w.addDead(DefaultDeadLimit, w.now()-100)
					kill(w, true)
					require.Equal(w, DefaultDeadLimit, w.number("ZCARD", w.keys.Dead()))
				}},
				promise{"not_when_no_job_dies", func(w *world) {
					w.keys = w.keys.WithDeadLimits(DeadLimits{Limit: 5})
					w.addDead(9, 1)
					kill(w, false)
					require.Equal(w, 9, w.number("ZCARD", w.keys.Dead()))
				}},
			)
		})
	}
}

// addsToDead matches a write to the dead set, or to the home of settle's jobs.
var addsToDead = regexp.MustCompile(`'ZADD', (?:dead|home),`)

// A script that is not listed would leave the dead set above its limits.
func TestAllScriptsThatAddToTheDeadSetAreKnown(t *testing.T) {
	t.Parallel()
	for _, s := range readScripts(t) {
		_, known := killers[s.name]
		require.Equal(t, known, addsToDead.MatchString(s.code), "%s.lua", s.name)
	}
}
