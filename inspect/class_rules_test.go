package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestClassRules(t *testing.T) {
	set := func(w *world, rule ClassRule) bool {
		w.Helper()
		changed, err := w.inspector.SetClassRule(w.Context(), rule)
		require.NoError(w, err)
		return changed
	}
	read := func(w *world) []ClassRule {
		w.Helper()
		rules, problems, err := w.inspector.ClassRules(w.Context())
		require.NoError(w, err)
		require.Empty(w, problems)
		return rules
	}
	paused, limited, dropped := ClassRule{Class: "A", Rule: RulePause}, ClassRule{Class: "A", Rule: RuleLimit, Concurrency: 2}, ClassRule{Class: "A", Rule: RuleDrop}
	promises(t, map[string]func(w *world){
		"are listed as they were set, and removed": func(w *world) {
			require.Empty(w, read(w))
			for _, rule := range []ClassRule{paused, limited, dropped} {
				require.True(w, set(w, rule))
				require.False(w, set(w, rule))
				require.Equal(w, []ClassRule{rule}, read(w))
			}
			for _, want := range []bool{true, false} {
				found, err := w.inspector.RemoveClassRule(w.Context(), "A")
				require.NoError(w, err)
				require.Equal(w, want, found)
			}
			require.Empty(w, read(w))
		},
		"are listed with their jobs": func(w *world) {
			odd := ClassRule{Class: hostile + "::a b", Rule: RuleLimit, Concurrency: 2}
			set(w, odd)
			set(w, ClassRule{Class: "Other", Rule: RulePause})
			gate := lua.ClassRule{Class: odd.Class}.Gate().Name
			w.run("h:1:aa", gate, sample(odd.Class, "1"))
			w.admit(gate, sample(odd.Class, "2"))
			w.wait(gate, "q", sample(odd.Class, "3", `"enqueued_at":1700000000.5`), sample(odd.Class, "4"))
			rules := read(w)
			require.Len(w, rules, 2)
			require.Greater(w, rules[0].Oldest.Duration, time.Hour)
			odd.Oldest, odd.Running, odd.Admitted, odd.Waiting = rules[0].Oldest, 1, 1, 2
			require.Equal(w, []ClassRule{odd, {Class: "Other", Rule: RulePause}}, rules)
		},
		"are limits that only they change": func(w *world) {
			set(w, paused)
			for _, act := range []func() error{
				func() error {
					_, err := w.inspector.SetLimit(w.Context(), "class.A", LimitChange{Concurrency: "5"})
					return err
				},
				func() error { _, err := w.inspector.ResetLimit(w.Context(), "class.A"); return err },
				func() error { _, err := w.inspector.RemoveLimit(w.Context(), "class.A"); return err },
			} {
				require.ErrorIs(w, act(), ErrLimitChange)
			}
			limits, err := w.inspector.Limits(w.Context())
			require.NoError(w, err)
			zero := 0
			require.Equal(w, []Limit{{Name: "class.A", Concurrency: &zero, Source: lua.LimitOfOperator}}, limits.Limits)
			set(w, dropped)
			limits, err = w.inspector.Limits(w.Context())
			require.NoError(w, err)
			require.Equal(w, []Limit{{Name: "class.A", Source: lua.LimitOfOperator}}, limits.Limits)
		},
		"are reported if they cannot be read": func(w *world) {
			w.do("HSET", w.keys.Classes(), "Later", "slow down", "A", "drop")
			rules, problems, err := w.inspector.ClassRules(w.Context())
			require.NoError(w, err)
			require.Equal(w, []ClassRule{dropped}, rules)
			require.Equal(w, []string{`the rule of the class "Later" is unreadable: "slow down"`}, problems)
			w.do("SET", w.keys.Classes(), "x")
			_, problems, err = w.inspector.ClassRules(w.Context())
			require.NoError(w, err)
			require.Len(w, problems, 1)
		},
		"are as many as processes keep": func(w *world) {
			for n := range lua.MaxClassRules {
				w.do("HSET", w.keys.Classes(), fmt.Sprint("C", n), "drop")
			}
			_, err := w.inspector.SetClassRule(w.Context(), paused)
			require.ErrorIs(w, err, ErrClassRule)
			require.ErrorContains(w, err, "1000 classes have rules")
		},
	})
}

func TestAClassRuleIsChecked(t *testing.T) {
	t.Parallel()
	for text, rule := range map[string]ClassRule{
		"name of the class is empty":          {Rule: RulePause},
		"there is no rule \"slow\"":           {Class: "A", Rule: "slow"},
		"concurrency 3: the rule pause has":   {Class: "A", Rule: RulePause, Concurrency: 3},
		"concurrency 0: it must be between 1": {Class: "A", Rule: RuleLimit},
		"concurrency 1000001":                 {Class: "A", Rule: RuleLimit, Concurrency: 1_000_001},
		"control":                             {Class: "a\nb", Rule: RuleDrop},
	} {
		require.ErrorIs(t, rule.Check(), ErrClassRule)
		require.ErrorContains(t, rule.Check(), text)
	}
}
