package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/scheduler"
)

const periodicHelp = `Lists the periodic jobs, the next due first: the schedule, the times of the last and the next
tick, and whose definition is in force (BY): a program's or an operator's.

The workers' poller enqueues the job of each tick, once for the whole fleet.`

const periodicAddHelp = `Adds a periodic job, or changes the one of that name. It stays until you remove it, and
prevails over a periodic job of the same name in a program's code.

CRON is one word of five fields: minute, hour, day of the month, month and day of the week. It may also be @hourly,
@daily, @weekly, @monthly, @yearly, or "@every 90s" with whole seconds, which count from 1970. A time that the clocks
skip in spring is due when they are set forward; a time that comes twice in autumn is due the first time.

CLASS and each JSON-ARG are as in belay push. Put -- before arguments that begin with a dash.

If you change the schedule or the zone, what is due is enqueued, and ticks count from now. Other changes move
no tick.`

func newPeriodic(at *redisFlags) *cobra.Command {
	list := withHome(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
		all, err := i.Periodic(context.Background())
		if err != nil {
			return err
		}
		return showAll(cmd, all, func(t *table) { printPeriodic(t, all) })
	})
	cmd := at.masking(withJSON(&cobra.Command{
		Use: "periodic", Short: "List periodic jobs and act on them", Long: periodicHelp, Args: noWords, RunE: list,
		Example: `  belay periodic
  belay periodic add nightly '0 3 * * *' Report '"all"' --zone Europe/Berlin -q reports
  belay periodic run nightly
  belay periodic pause nightly
  belay periodic history nightly`,
	}))
	cmd.AddCommand(at.masking(withJSON(&cobra.Command{
		Use: "list", Short: "List periodic jobs", Long: periodicHelp, Args: noWords, RunE: list,
		Example: "  belay periodic list\n  belay periodic list --json | jq -r .name",
	})), newPeriodicAdd(at), newPeriodicRun(at), newPeriodicHistory(at),
		newPeriodicAct(at, "remove", "Remove periodic jobs", `Removes periodic jobs. Jobs that were enqueued stay. A periodic job that a live process has in its code cannot be
removed, because it would come back: pause it, or remove it from the program. If the removed job replaced one in code,
the one in code is active again within half a minute.`, "removed", "", func(i *inspect.Inspector, ctx context.Context, name string) (bool, error) {
			return true, i.RemovePeriodic(ctx, name)
		}),
		newPeriodicAct(at, "pause", "Pause periodic jobs", `Pauses periodic jobs: ticks that pass enqueue no job, and are not made up for later. New versions of the program do
not change that.`, "paused", "it is paused already", (*inspect.Inspector).PausePeriodic),
		newPeriodicAct(at, "resume", "Resume paused periodic jobs", `Resumes paused periodic jobs: their ticks enqueue jobs again, from now on.`,
			"resumed", "it is not paused", (*inspect.Inspector).ResumePeriodic))
	return cmd
}

// printPeriodic prints the list.
func printPeriodic(t *table, all []inspect.Periodic) {
	rows(t, []any{"NAME", "SCHEDULE", "ZONE", "CLASS", "QUEUE", "LAST", "NEXT", "BY"}, all, func(job inspect.Periodic) []any {
		next, by := localTime(job.NextAt), "code"
		switch {
		case job.Paused:
			next = "paused"
		case job.Problem != "":
			next = job.Problem
		}
		if job.Process == "" {
			by = "operator"
		}
		return []any{job.Name, job.Cron, cmp.Or(job.Zone, "UTC"), cut(job.Class, 40), job.Queue, localTime(job.LastAt), next, by}
	})
	if len(all) == 0 {
		t.row("no periodic jobs")
	}
}

func newPeriodicAdd(at *redisFlags) *cobra.Command {
	var zone, catchUp, overlap string
	var words jobFlags
	var jitter time.Duration
	var definition *scheduler.Periodic
	cmd := &cobra.Command{
		Use: "add NAME CRON CLASS [JSON-ARG]...", Short: "Add or change a periodic job", Long: periodicAddHelp,
		Example: `  belay periodic add nightly '0 3 * * *' Report '"all"' --zone Europe/Berlin -q reports
  belay periodic add sync '@every 90s' Sync --overlap skip --catch-up skip
  belay periodic add invoices '0 6 1 * *' Invoices --catch-up all`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 3 {
				return usage("give a name, a schedule and a class, such as: belay periodic add nightly '0 3 * * *' Report")
			}
			var j client.RawJob
			err := words.read(&j, args[2:])
			if err != nil {
				return err
			}
			definition, err = client.Periodic{
				Name: args[0], Cron: args[1], Zone: zone, CatchUp: scheduler.CatchUp(catchUp), Overlap: scheduler.Overlap(overlap), Jitter: jitter, Job: j,
			}.Definition()
			if err != nil {
				return usage("%w", err)
			}
			return nil
		},
		RunE: withHome(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			changed, err := i.AddPeriodic(context.Background(), definition)
			if err != nil {
				return err
			}
			outcome := "it was so already"
			if changed {
				outcome = "added; the first tick is at " + definition.Schedule().Next(time.Now()).Format(clockFormat)
			}
			printLine(cmd, args[0]+": "+outcome)
			return nil
		}),
	}
	set := cmd.Flags()
	set.StringVar(&zone, "zone", "", "the `ZONE` of the schedule, such as Europe/Berlin (default UTC)")
	set.StringVar(&catchUp, "catch-up", string(scheduler.CatchUpOnce),
		"ticks that passed while no worker ran: skip, once (one job for all) or all (a job for each of the last thousand)")
	set.StringVar(&overlap, "overlap", string(scheduler.OverlapSkip),
		"at a tick while the job of an earlier tick waits or runs: skip (no job), queue (the tick waits; others are skipped meanwhile) or allow (any number)")
	set.DurationVar(&jitter, "jitter", 0, "delay each tick by less than this")
	words.register(set, "queue of the jobs")
	return cmd
}

func newPeriodicRun(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "run NAME", Short: "Enqueue the job of a periodic job now",
		Long:    `Enqueues the job of a periodic job now, also if it is paused, and prints its jid. Its ticks stay as they are.`,
		Example: "  belay periodic run nightly",
		Args:    onePeriodic,
		RunE: withHome(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			run, err := i.RunPeriodic(context.Background(), args[0])
			if err == nil {
				err = show(cmd, run, func(t *table) { t.row(run.JID) })
			}
			if err == nil && run.Outcome != "enqueued" {
				return statusError{fmt.Errorf("refused: the job %s of an earlier tick holds the lock", run.JID), exitDuplicate}
			}
			return err
		}),
	})
}

func newPeriodicHistory(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "history NAME", Short: "List the last runs of a periodic job",
		Long: `Lists the last 25 ticks of a periodic job, the newest first: the nominal time of the tick, when its job was
enqueued, the job's outcome, when the job ended, and its jid. The outcome is enqueued (the job waits, or has just
begun), running, retrying, done, dead, discarded, cancelled, expired or refused: the tick was skipped, because the job
of an earlier tick, with this jid, held the lock.`,
		Example: "  belay periodic history nightly\n  belay find $(belay periodic history nightly --json | head -1 | jq -r .jid)",
		Args:    onePeriodic,
		RunE: withHome(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			_, runs, err := i.PeriodicHistory(context.Background(), args[0])
			if err != nil {
				return err
			}
			return showAll(cmd, runs, func(t *table) {
				t.head("TICK", "AT", "OUTCOME", "ENDED", "JID")
				for _, run := range runs {
					tick := "by hand"
					if run.TickAt != nil {
						tick = localTime(run.TickAt)
					}
					t.row(tick, localTime(&run.At), run.Outcome, localTime(run.EndedAt), run.JID)
				}
			})
		}),
	})
}

var onePeriodic = oneArg("name one periodic job, as belay periodic shows it")

// newPeriodicAct makes a command that does one thing to each periodic job that is named.
func newPeriodicAct(
	at *redisFlags, verb, short, long, past, already string, do func(i *inspect.Inspector, ctx context.Context, name string) (changed bool, err error),
) *cobra.Command {
	return namedAct{
		use: verb + " NAME...", short: short, long: long, past: past, home: true,
		example: "  belay periodic " + verb + " nightly",
		args:    someArgs("name periodic jobs, as belay periodic shows them"),
		do: func(ctx context.Context, i *inspect.Inspector, name string) (string, bool, error) {
			changed, err := do(i, ctx, name)
			if errors.Is(err, inspect.ErrNoPeriodic) {
				return "", false, nil
			}
			return cmp.Or(word(changed, past), already), true, err
		},
	}.command(at)
}
