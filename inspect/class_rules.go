package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/limit"
	"github.com/belayq/belay/lua"
)

// A Rule is what an operator wants of the jobs of a class.
type Rule string

const (
	// RulePause starts no job of the class. They wait until the rule is removed.
	RulePause Rule = lua.RulePause
	// RuleLimit runs some jobs of the class at once, and the others wait.
	RuleLimit Rule = lua.RuleLimit
	// RuleDrop ends the jobs of the class before they start, as cancelled: for good.
	RuleDrop Rule = lua.RuleDrop
)

// A ClassRule is an operator's rule for the jobs of a class, and what it does. The class is untrusted.
type ClassRule struct {
	// Class is the class of the jobs; for jobs of Rails their own class, not the one that wraps it.
	Class string `json:"class"`
	Rule  Rule   `json:"rule"`
	// Concurrency is how many of its jobs run at once by RuleLimit; 0 with the other rules.
	Concurrency int `json:"concurrency,omitempty"`
	// Running counts the runs that began under the rule, Admitted the jobs that may start and have not, and
	// Waiting those that wait because of the rule.
	Running  int64 `json:"running"`
	Admitted int64 `json:"admitted"`
	Waiting  int64 `json:"waiting"`
	// Oldest is how long ago the next of the waiting jobs was enqueued.
	Oldest Seconds `json:"oldest_seconds"`
}

// ErrClassRule is the error of SetClassRule for a rule that no class can have; it says why.
var ErrClassRule = errors.New("the class cannot have this rule")

// Check returns everything that is wrong with the rule, as an ErrClassRule.
func (r ClassRule) Check() error {
	err := job.CheckClass(r.Class)
	switch r.Rule {
	case RulePause, RuleDrop:
		if r.Concurrency != 0 {
			err = errors.Join(err, fmt.Errorf("concurrency %d: the rule %s has none", r.Concurrency, r.Rule))
		}
	case RuleLimit:
		if r.Concurrency < 1 || r.Concurrency > limit.MaxConcurrency {
			err = errors.Join(err, fmt.Errorf("concurrency %d: it must be between 1 and %d; pause the class to start none", r.Concurrency, limit.MaxConcurrency))
		}
	default:
		err = errors.Join(err, fmt.Errorf("there is no rule %q: it is %s, %s or %s", string(r.Rule), RulePause, RuleLimit, RuleDrop))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClassRule, err)
	}
	return nil
}

// SetClassRule gives the jobs of a class a rule, whether a program declares the class or not: workers of Belay
// obey it with their next heartbeat, and until RemoveClassRule. Runs go on. The rule goes before a limit that a
// program declares for the class, and runs that began before it do not count. It reports whether the rule is
// another one than before. At most 1,000 classes have rules.
func (i *Inspector) SetClassRule(ctx context.Context, rule ClassRule) (changed bool, err error) {
	if err := rule.Check(); err != nil {
		return false, err
	}
	stored := lua.ClassRule{Class: rule.Class, Drop: rule.Rule == RuleDrop, Concurrency: rule.Concurrency}
	word, err := i.keys.SetClassRule(stored).Do(ctx, i.driver)
	if refused, ok := errors.AsType[*driver.ServerError](err); ok && refused.Code == lua.FullCode {
		return false, fmt.Errorf("%w: %d classes have rules, and no more can; remove one", ErrClassRule, lua.MaxClassRules)
	}
	if err != nil {
		return false, fmt.Errorf("%s the class %s: %w", rule.Rule, rule.Class, err)
	}
	return word != lua.ClassRuleSame, nil
}

// RemoveClassRule removes the rule of a class. Jobs that wait because of it go back to their queues, in their
// order; the poller does that, within seconds for some thousand jobs. found is false if the class has no rule.
func (i *Inspector) RemoveClassRule(ctx context.Context, class string) (found bool, err error) {
	word, err := i.keys.RemoveClassRule(class).Do(ctx, i.driver)
	if err != nil {
		return false, fmt.Errorf("resume the class %s: %w", class, err)
	}
	return word == lua.ClassRuleRemoved, nil
}

// ClassRules returns the rules of classes, by class. Problems describes what could not be read, at most 20.
func (i *Inspector) ClassRules(ctx context.Context) (rules []ClassRule, problems []string, err error) {
	var r reading
	texts, err := i.fields(ctx, &r, "the rules of classes", i.keys.Classes())
	if err != nil {
		return nil, nil, err
	}
	rules = make([]ClassRule, 0, len(texts))
	gates := make(map[string]string, len(texts)) // by class
	for class, text := range texts {
		stored, err := lua.ParseClassRule(class, text)
		if err != nil {
			r.problem("%v", err)
			continue
		}
		rule := ClassRule{Class: class, Rule: Rule(stored.Kind()), Concurrency: stored.Concurrency}
		rules, gates[class] = append(rules, rule), stored.Gate().Name
	}
	slices.SortFunc(rules, func(a, b ClassRule) int { return strings.Compare(a.Class, b.Class) })
	now, err := i.Now(ctx)
	if err != nil || len(rules) == 0 {
		return rules, r.problems, err
	}
	names := make([]string, len(rules))
	for n, rule := range rules {
		names[n] = gates[rule.Class]
	}
	lines := i.lines(ctx, &r, names, now)
	for n, line := range lines {
		rules[n].Waiting, rules[n].Oldest = line.Waiting, line.Oldest
	}
	i.countRuns(ctx, &r, names, rules)
	return rules, r.problems, r.err
}

// countRuns reads the counts of the gates of rules.
func (i *Inspector) countRuns(ctx context.Context, r *reading, gates []string, rules []ClassRule) {
	words := []string{"HMGET", i.keys.Gates()}
	for _, name := range gates {
		gate := lua.Gate{Name: name}
		words = append(words, gate.RunningField(), gate.AdmittedField())
	}
	counts := r.texts("the counts of gates", i.driver.Do(ctx, driver.Command(words...))[0])
	for n := 0; n+1 < len(counts); n += 2 {
		rules[n/2].Running, rules[n/2].Admitted = r.count("a count of the gate "+gates[n/2], counts[n]), r.count("a count of the gate "+gates[n/2], counts[n+1])
	}
}

// ClassOfLimit returns the class whose rule a limit is, by the limit's name; ok is false for another limit.
func ClassOfLimit(name string) (class string, ok bool) { return lua.ClassOfLimit(name) }
