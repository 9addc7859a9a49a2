package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

// printHistory prints the counts of the last days.
func printHistory(cmd *cobra.Command, i *inspect.Inspector, days int, asJSON bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	history, problems, err := i.History(ctx, days)
	for _, problem := range problems {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), plain(problem))
	}
	if err != nil {
		return err
	}
	return printParts(cmd.OutOrStdout(), asJSON, history, func(t *table) {
		t.row("DAY (UTC)", "PROCESSED", "FAILED")
		for _, day := range history {
			t.row(day.Date, day.Processed, day.Failed)
		}
	})
}

// newReset makes the command that sets counters to zero.
func newReset(at *redisFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset [processed|failed|duplicates]...",
		Short: "Set counters to zero",
		Long: `Sets the named counters to zero; without a name, processed and failed, as Sidekiq's Ruby API does. The counts
by day (belay status --history) do not change.

Exit status: 0; 1 if Redis cannot be reached; 2 for a wrong command line.`,
		Example:   "  belay status reset --yes\n  belay status reset duplicates --yes",
		ValidArgs: []string{string(inspect.CounterProcessed), string(inspect.CounterFailed), string(inspect.CounterDuplicates)},
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.OnlyValidArgs(cmd, args); err != nil {
				return usage("the counters are processed, failed and duplicates: %w", err)
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			var counters []inspect.Counter
			for _, name := range args {
				counters = append(counters, inspect.Counter(name))
			}
			if !yes {
				if err := agree(cmd, "set the counters to zero"); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			return i.ResetCounters(ctx, counters...)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// newReschedule makes the command that lets jobs of a set wait until another time.
func newReschedule(at *redisFlags, p place) *cobra.Command {
	return newAct(at, p, inspect.Reschedule, &cobra.Command{
		Short: "Change the time at which jobs run",
		Long: `Changes the time at which jobs run to that of --in or --at; a past time means now. Nothing else in the jobs
changes. A unique job keeps its lock until that time, and for its TTL after that.`,
		Example: p.example("  belay %[1]s reschedule 217d2cffc30f4a168b3a76d9 --in 10m\n" +
			"  belay %[1]s reschedule --class Report --at 2026-12-24T18:00:00+01:00"),
	})
}

// rescheduled is the time that --in or --at gives.
type rescheduled struct {
	cmd  *cobra.Command
	time pushFlags
}

func newRescheduled(cmd *cobra.Command) *rescheduled {
	r := &rescheduled{cmd: cmd}
	cmd.Flags().DurationVar(&r.time.in, "in", 0, "from now on by Redis' clock, such as 10s or 36h")
	cmd.Flags().StringVar(&r.time.at, "at", "", "an `INSTANT`, such as 2026-12-24T18:00:00+01:00")
	return r
}

// at returns the time; nil is of another action.
func (r *rescheduled) at(ctx context.Context, i *inspect.Inspector) (time.Time, error) {
	if r == nil {
		return time.Time{}, nil
	}
	if r.cmd.Flags().Changed("in") == r.cmd.Flags().Changed("at") {
		return time.Time{}, usage("when? Give --in or --at")
	}
	at, err := r.time.until()
	if err != nil || !at.IsZero() {
		return at, err
	}
	now, err := i.Now(ctx)
	return now.Add(r.time.in), err
}

// searchFlags select jobs wherever they are.
type searchFlags struct {
	query  inspect.Query
	places []string
}

func (f *searchFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.query.Class, "class", "", "jobs of this `CLASS`")
	set.StringVar(&f.query.Text, "text", "", "jobs with this `TEXT` in their arguments, error or tags, in any case")
	set.StringVarP(&f.query.Queue, "queue", "q", "", "jobs of this queue")
	set.StringSliceVar(&f.places, "in", nil, "only in these `PLACES`: queue, quarantined, running, scheduled, retry, dead")
	set.IntVar(&f.query.Limit, "limit", 25, "how many to show, at most 1000")
	set.StringVar(&f.query.Cursor, "cursor", "", "continue a search that printed this `CURSOR`")
}

// any reports whether a search is asked for, not one job.
func (f *searchFlags) any(set *pflag.FlagSet) bool {
	for _, name := range []string{"class", "text", "queue", "in", "cursor"} {
		if set.Changed(name) {
			return true
		}
	}
	return false
}

func (f *searchFlags) check() error {
	if f.query.Limit < 1 || f.query.Limit > 1000 {
		return usage("--limit %d: it is from 1 to 1000", f.query.Limit)
	}
	f.query.Places = nil
	for _, name := range f.places {
		switch place := inspect.Place(name); place {
		case inspect.PlaceQueue, inspect.PlaceQuarantined, inspect.PlaceRunning, inspect.PlaceScheduled, inspect.PlaceRetry, inspect.PlaceDead:
			f.query.Places = append(f.query.Places, place)
		default:
			return usage("--in %s: it is queue, quarantined, running, scheduled, retry or dead", name)
		}
	}
	return nil
}

// run prints the jobs that were found, and how to continue.
func (f *searchFlags) run(cmd *cobra.Command, i *inspect.Inspector, asJSON bool, timeout time.Duration) error {
	f.query.Time = timeout
	results, err := i.Search(context.Background(), f.query)
	if err != nil {
		return err
	}
	err = printParts(cmd.OutOrStdout(), asJSON, results.Found, func(t *table) {
		if len(results.Found) > 0 {
			t.row("JID", "CLASS", "STATE", "QUEUE", "SINCE", "PROCESS")
		}
		for _, found := range results.Found {
			since := ""
			if !found.Since.IsZero() {
				since = found.Since.Local().Format(time.DateTime)
			}
			process := strings.TrimSpace(found.Process + " " + word(found.State == inspect.StateLapsed, "(lapsed)"))
			if found.Place == inspect.PlaceRunning && !found.Reported {
				process += ", not reported"
			}
			t.row(found.JID, cut(found.Class, 40), string(found.Place), found.Queue, since, process)
		}
	})
	errs := cmd.ErrOrStderr()
	for _, unseen := range results.Unseen {
		_, _ = fmt.Fprintln(errs, plain(unseen))
	}
	if results.Next != "" {
		_, _ = fmt.Fprintf(errs, "%d entries were read; to continue: --cursor %s\n", results.Looked, results.Next)
	}
	return err
}

// newLockOf makes the command that finds the lock of a job by its class and arguments.
func newLockOf(at *redisFlags) *cobra.Command {
	var queue string
	var positions []int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "find CLASS [JSON-ARG]...",
		Short: "Show the lock that a job would need",
		Long: `Shows which job holds the lock that a job of this class with these arguments would need if it were pushed
now. Arguments that differ only in spelling are equal (1 and 1.0). Give --by if the class has UniqueByFields, and
--queue if it has PerQueue. The locks of classes with UniqueBy cannot be found here, because Go code computes their
keys.

With --json it prints one JSON object with the fields of belay locks --json.

Exit status: 0 if the lock is held; 1 if Redis cannot be read; 2 for a wrong command line; 4 if it is free.`,
		Example: "  belay locks find Reindex 42\n  belay locks find Reindex 42 null --by 1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("give the class of the job, such as: belay locks find Reindex 42")
			}
			_, err := joinArgs(args[1:])
			return err
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			argsJSON, err := joinArgs(args[1:])
			if err != nil {
				return err
			}
			rule := dedup.Rule{Until: dedup.UntilExecuting, Positions: positions, PerQueue: cmd.Flags().Changed("queue")}
			lock, held, err := i.LockOf(context.Background(), rule, unshield(args[0]), queue, argsJSON)
			switch {
			case err != nil:
				return err
			case !held:
				return absent([]string{lock.Digest})
			}
			return printParts(cmd.OutOrStdout(), asJSON, []inspect.Lock{lock}, func(t *table) {
				t.row(lockHeads...)
				t.row(lockCells(lock)...)
			})
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", job.DefaultQueue, "the queue, if it is a part of the job's identity")
	cmd.Flags().IntSliceVar(&positions, "by", nil, "the `ARGUMENTS` that identify the job, counted from 1")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
