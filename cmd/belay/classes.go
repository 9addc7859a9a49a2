package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/launcher"
)

const classesHelp = `Shows the runs of each class over a window of time: how many, how many failed, how long successful runs took, and how
long jobs had been in their queues before. MEAN and P50 to P99 are of successful runs; a job that never ran counts in
none. They are Sidekiq's execution metrics, which workers of Belay and of Sidekiq 8 write.
Percentiles are estimates, and known for windows of up to 8h only. Redis keeps these figures for 72h. RULE is the rule
that an operator has given the class.

The commands below give a class a rule, while workers run and whatever their programs say: pause it, limit how many of its
jobs run at once, or drop its jobs. Workers of Belay obey a rule within a heartbeat, also for classes that only programs in
Ruby declare; workers of Sidekiq do not. belay classes list shows the rules.`

func newClasses(at *redisFlags) *cobra.Command {
	var window inspect.ClassWindow
	cmd := withJSON(&cobra.Command{
		Use:   "classes",
		Short: "Show runs, failures and durations by class, and pause, limit or drop classes",
		Long:  classesHelp,
		Example: `  belay classes
  belay classes --last 8h
  belay classes --class WelcomeEmail --json
  belay classes pause Reports::Daily
  belay classes limit WelcomeEmail 5
  belay classes resume Reports::Daily WelcomeEmail`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			if window.Last < time.Minute || window.Last > inspect.MaxWindow {
				return usage("--last %v: it must be between 1m and %v", window.Last, inspect.MaxWindow)
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			list, err := i.Classes(ctx, window)
			if err != nil {
				return err
			}
			return show(cmd, list, func(t *table) {
				rules, problems, err := i.ClassRules(ctx)
				if list.Problems = append(list.Problems, problems...); err != nil {
					list.Problems = append(list.Problems, err.Error())
				}
				printClasses(t, list, rules)
			})
		}),
	})
	cmd.Flags().DurationVar(&window.Last, "last", time.Hour, "length of the window, at most 72h")
	cmd.Flags().StringVar(&window.Class, "class", "", "show this `CLASS` alone")
	cmd.AddCommand(newClassList(at), newClassPause(at), newClassLimit(at), newClassDrop(at), newClassResume(at))
	return cmd
}

func newClassList(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "list",
		Short: "List the rules of classes",
		Long: `Lists the classes that operators have paused, limited or dropped. WAITING are jobs that wait because of the rule; they are in
no queue, as those that wait for a limit: see belay list waiting. RUNNING are runs that began under the rule.`,
		Example: "  belay classes list\n  belay classes list --json | jq -r 'select(.rule == \"pause\") | .class'",
		Args:    noArgs,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			rules, problems, err := i.ClassRules(context.Background())
			if err != nil {
				return err
			}
			printProblems(cmd, problems)
			return showAll(cmd, rules, func(t *table) {
				rows(t, []any{"CLASS", "RULE", "RUNNING", "ADMITTED", "WAITING", "OLDEST"}, rules, func(r inspect.ClassRule) []any {
					return []any{cut(r.Class, 60), ruleWords(r), r.Running, r.Admitted, r.Waiting, oldest(r.Oldest)}
				})
				t.row(plural(len(rules), "1 class with a rule", "%d classes with a rule"))
			})
		}),
	})
}

// ruleWords returns a rule for a table.
func ruleWords(r inspect.ClassRule) string {
	return string(r.Rule) + word(r.Rule == inspect.RuleLimit, " "+strconv.Itoa(r.Concurrency))
}

func newClassPause(at *redisFlags) *cobra.Command {
	return ruleAct(at, &inspect.ClassRule{Rule: inspect.RulePause}, namedAct{
		use: "pause CLASS...", short: "Start no job of classes", past: "paused",
		long: `Lets workers start no job of classes, within a heartbeat. Running jobs go on, and pushes are accepted. Jobs that come to a
worker wait, in no queue and without a processor, until belay classes resume brings them back in their order; then they go to
the back of their queues. To stop all jobs of a queue, belay queues pause is cheaper: it moves no job.`,
		example: "  belay classes pause Reports::Daily",
		args:    someArgs("name the classes"),
	})
}

func newClassLimit(at *redisFlags) *cobra.Command {
	rule := inspect.ClassRule{Rule: inspect.RuleLimit}
	return ruleAct(at, &rule, namedAct{
		use: "limit CLASS N", short: "Run at most so many jobs of a class at once", past: "limited",
		long: `Lets at most N jobs of a class run at once in the fleet, within a heartbeat; further ones wait and cost no processor. Runs that
began before do not count and go on. The rule goes before a limit that a program declares for the class (belay limits), with its
keys and its rate.`,
		example: "  belay classes limit Reports::Daily 2",
		args:    advised("name one class, and how many of its jobs may run at once", cobra.ExactArgs(2)),
		names: func(args []string) (classes []string, err error) {
			if rule.Concurrency, err = strconv.Atoi(args[1]); err != nil {
				return nil, usage("%q is no number of jobs", args[1])
			}
			return args[:1], nil
		},
	})
}

func newClassDrop(at *redisFlags) *cobra.Command {
	return ruleAct(at, &inspect.ClassRule{Rule: inspect.RuleDrop}, namedAct{
		use: "drop CLASS...", short: "End the jobs of classes before they start, for good", past: "dropped",
		long: `Ends the jobs of classes before they start, within a heartbeat and as long as the rule is there: those that wait, those that are
pushed, and retries and scheduled jobs when they are due. They end as cancelled: they are counted, a worker logs each of them,
locks are freed and batches count them as removed; no next job follows. Running jobs go on. They cannot be brought back, so pause
a class first if you are not sure.`,
		example: "  belay classes drop Reports::Daily --yes",
		args:    someArgs("name the classes"),
		question: func(classes []string) string {
			return "end all jobs of " + strings.Join(classes, ", ") + " before they start"
		},
	})
}

// ruleAct makes a command that gives classes a rule. A wrong class is an error before any is changed.
func ruleAct(at *redisFlags, rule *inspect.ClassRule, a namedAct) (cmd *cobra.Command) {
	read := a.names
	a.names = func(args []string) (classes []string, err error) {
		if classes = args; read != nil {
			classes, err = read(args)
		}
		for _, class := range classes {
			rule.Class = class
			if err := rule.Check(); err != nil {
				return nil, usage("%w", err)
			}
		}
		return classes, err
	}
	a.do = func(ctx context.Context, i *inspect.Inspector, class string) (string, bool, error) {
		note := noRuns(ctx, turnOf(cmd).inspectors(i), class)
		rule.Class = class
		changed, err := i.SetClassRule(ctx, *rule)
		words := a.past
		if rule.Rule == inspect.RuleLimit {
			words = fmt.Sprintf("at most %d at once", rule.Concurrency)
		}
		return words + word(!changed, " already") + note, true, err
	}
	a.look = func(ctx context.Context, i *inspect.Inspector, class string) (string, bool, error) {
		state, _, err := lookAtRule(ctx, i, class)
		return cmp.Or(state, "no rule"), true, err
	}
	cmd = a.command(at)
	return cmd
}

// noRuns is a note about a class whose name may be misspelled: no shard has counted a run of it, runs it or
// has a rule for it. It is empty if one has, or if that is unknown: a process counts only so many classes by
// their names.
func noRuns(ctx context.Context, shards []*inspect.Inspector, class string) string {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout/2) // the rest is for the act
	defer cancel()
	var known []string
	for _, i := range shards {
		names, err := classNames(i, ctx)
		own, ownErr := i.Classes(ctx, inspect.ClassWindow{Last: inspect.MaxWindow, Class: class}) // of all, not only the busiest
		status, statusErr := i.Status(ctx)
		for _, p := range status.Processes {
			for _, run := range p.Running {
				names = append(names, run.Class)
			}
		}
		if cmp.Or(err, ownErr, statusErr) != nil || len(own.Problems) > 0 || own.ClassCount > 0 ||
			slices.Contains(names, class) || slices.Contains(names, launcher.OtherClass) {
			return ""
		}
		known = append(known, names...)
	}
	return fmt.Sprintf(" (no run of it was counted in the last %.0fh%s)", inspect.MaxWindow.Hours(), suggestion(class, known))
}

// lookAtRule describes the rule of a class.
func lookAtRule(ctx context.Context, i *inspect.Inspector, class string) (string, bool, error) {
	rules, _, err := i.ClassRules(ctx)
	at := slices.IndexFunc(rules, func(r inspect.ClassRule) bool { return r.Class == class })
	if err != nil || at < 0 {
		return "", false, err
	}
	return fmt.Sprintf("rule %s, %d running, %d waiting", ruleWords(rules[at]), rules[at].Running, rules[at].Waiting), true, nil
}

func newClassResume(at *redisFlags) *cobra.Command {
	return namedAct{
		use: "resume CLASS...", short: "Remove the rules of classes", past: "resumed",
		long: `Removes the rules of classes, so that their jobs start again as their programs say, within a heartbeat. Jobs that wait because of
a rule go to the back of their queues, in their order.`,
		example: "  belay classes resume Reports::Daily",
		args:    someArgs("name the classes, as belay classes list shows them"),
		do:      doing("resumed", (*inspect.Inspector).RemoveClassRule),
		look:    lookAtRule,
	}.command(at)
}

func printClasses(t *table, list inspect.Classes, rules []inspect.ClassRule) {
	words := make(map[string]string, len(rules))
	for _, rule := range rules {
		words[rule.Class] = ruleWords(rule)
	}
	t.head("CLASS", "RUNS", "FAILED", "MEAN", "RUN P50", "P95", "P99", "WAIT P50", "P95", "P99", "RULE")
	for _, class := range list.Classes {
		cells := []any{cut(class.Name, 40), class.Runs, class.Failed, "-"}
		if class.Mean != nil {
			cells[3] = inspect.TookText(*class.Mean, short)
		}
		for _, durations := range []*inspect.Durations{class.Run, class.Wait} {
			if durations == nil {
				cells = append(cells, "-", "-", "-")
			} else {
				for _, percentile := range []inspect.Seconds{durations.P50, durations.P95, durations.P99} {
					cells = append(cells, inspect.PercentileText(percentile, short))
				}
			}
		}
		t.row(append(cells, cmp.Or(words[class.Name], "-"))...)
	}
	if list.ClassCount > len(list.Classes) {
		t.row("classes: " + count(int64(list.ClassCount), len(list.Classes)))
	}
	for _, problem := range list.Problems {
		t.row("problem: " + problem)
	}
}
