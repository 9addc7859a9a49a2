package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const classesHelp = `Shows the runs of each class over a window of time: how many, how many failed, how long successful runs took, and how
long jobs had been in their queues before. MEAN and P50 to P99 are of successful runs; a job that never ran counts in
none. They are Sidekiq's execution metrics, which workers of Belay and of Sidekiq 8 write.
Percentiles are estimates, and known for windows of up to 8h only. Redis keeps these figures for 72h.

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
			return show(cmd, list, func(t *table) { printClasses(t, list) })
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
				if len(rules) > 0 {
					t.row("CLASS", "RULE", "RUNNING", "ADMITTED", "WAITING", "OLDEST")
				}
				for _, r := range rules {
					t.row(cut(r.Class, 60), ruleWords(r), r.Running, r.Admitted, r.Waiting, oldest(r.Oldest))
				}
				t.row(fmt.Sprintf("%d classes with a rule", len(rules)))
			})
		}),
	})
}

// ruleWords returns a rule for a table.
func ruleWords(r inspect.ClassRule) string {
	return string(r.Rule) + word(r.Rule == inspect.RuleLimit, " "+strconv.Itoa(r.Concurrency))
}

func newClassPause(at *redisFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "pause CLASS...",
		Short: "Start no job of classes",
		Long: `Lets workers start no job of classes, within a heartbeat. Running jobs go on, and pushes are accepted. Jobs that come to a
worker wait, in no queue and without a processor, until belay classes resume brings them back in their order; then they go to
the back of their queues. To stop all jobs of a queue, belay queues pause is cheaper: it moves no job.`,
		Example: "  belay classes pause Reports::Daily",
		Args:    someArgs("name the classes"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, classes []string) error {
			return setRules(cmd, i, inspect.ClassRule{Rule: inspect.RulePause}, classes, "paused")
		}),
	}
}

func newClassLimit(at *redisFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "limit CLASS N",
		Short: "Run at most so many jobs of a class at once",
		Long: `Lets at most N jobs of a class run at once in the fleet, within a heartbeat; further ones wait and cost no processor. Runs that
began before do not count and go on. The rule goes before a limit that a program declares for the class (belay limits), with its
keys and its rate.`,
		Example: "  belay classes limit Reports::Daily 2",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("name one class, and how many of its jobs may run at once")
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return usage("%q is no number of jobs", args[1])
			}
			return setRules(cmd, i, inspect.ClassRule{Rule: inspect.RuleLimit, Concurrency: n}, args[:1], fmt.Sprintf("at most %d at once", n))
		}),
	}
}

func newClassDrop(at *redisFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop CLASS...",
		Short: "End the jobs of classes before they start, for good",
		Long: `Ends the jobs of classes before they start, within a heartbeat and as long as the rule is there: those that wait, those that are
pushed, and retries and scheduled jobs when they are due. They end as cancelled: they are counted, a worker logs each of them,
locks are freed and batches count them as removed; no next job follows. Running jobs go on. They cannot be brought back, so pause
a class first if you are not sure.`,
		Example: "  belay classes drop Reports::Daily --yes",
		Args:    someArgs("name the classes"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, classes []string) error {
			if err := confirm(cmd, "end all jobs of "+strings.Join(classes, ", ")+" before they start"); err != nil {
				return err
			}
			return setRules(cmd, i, inspect.ClassRule{Rule: inspect.RuleDrop}, classes, "dropped")
		}),
	}
	cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return cmd
}

// setRules gives classes a rule.
func setRules(cmd *cobra.Command, i *inspect.Inspector, rule inspect.ClassRule, classes []string, words string) error {
	for _, class := range classes {
		rule.Class = class
		if err := rule.Check(); err != nil {
			return usage("%w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	known, _ := classNames(i, ctx)
	for _, class := range classes {
		rule.Class = class
		changed, err := i.SetClassRule(ctx, rule)
		if err != nil {
			return err
		}
		note := ""
		if !slices.Contains(known, class) {
			note = fmt.Sprintf(" (no job of it has run in the last %.0fh%s)", inspect.MaxWindow.Hours(), suggestion(class, known))
		}
		printLine(cmd, class+": "+words+word(!changed, " already")+note)
	}
	return nil
}

func newClassResume(at *redisFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume CLASS...",
		Short: "Remove the rules of classes",
		Long: `Removes the rules of classes, so that their jobs start again as their programs say, within a heartbeat. Jobs that wait because of
a rule go to the back of their queues, in their order.`,
		Example: "  belay classes resume Reports::Daily",
		Args:    someArgs("name the classes, as belay classes list shows them"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, classes []string) error {
			return each(classes, func(class string) (bool, error) {
				found, err := i.RemoveClassRule(context.Background(), class)
				if found {
					printLine(cmd, class+": resumed")
				}
				return found, err
			})
		}),
	}
}

func printClasses(t *table, list inspect.Classes) {
	t.row("CLASS", "RUNS", "FAILED", "MEAN", "RUN P50", "P95", "P99", "WAIT P50", "P95", "P99")
	for _, class := range list.Classes {
		cells := []any{cut(class.Name, 40), class.Runs, class.Failed, "-"}
		if class.Mean != nil {
			cells[3] = short(*class.Mean)
		}
		for _, durations := range []*inspect.Durations{class.Run, class.Wait} {
			if durations == nil {
				cells = append(cells, "-", "-", "-")
			} else {
				cells = append(cells, short(durations.P50), short(durations.P95), short(durations.P99))
			}
		}
		t.row(cells...)
	}
	if list.ClassCount > len(list.Classes) {
		t.row("classes: " + count(int64(list.ClassCount), len(list.Classes)))
	}
	for _, problem := range list.Problems {
		t.row("problem: " + problem)
	}
}
