package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const classesHelp = `Shows the runs of each class over a window of time: how many, how many failed, how long successful runs took, and how
long jobs had been in their queues before. MEAN and P50 to P99 are of successful runs; a job that never ran counts in
none. They are Sidekiq's execution metrics, which workers of Belay and of Sidekiq 8 write.
Percentiles are estimates, and known for windows of up to 8h only. Redis keeps these figures for 72h.`

func newClasses(at *redisFlags) *cobra.Command {
	var window inspect.ClassWindow
	cmd := withJSON(&cobra.Command{
		Use:   "classes",
		Short: "Show runs, failures and durations by class",
		Long:  classesHelp,
		Example: `  belay classes
  belay classes --last 8h
  belay classes --class WelcomeEmail --json`,
		Args: noArgs,
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
	return cmd
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
