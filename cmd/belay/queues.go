package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const queuesHelp = `Lists the queues with their sizes, how long their oldest job has been waiting, how many runs of their jobs end and fail
in a second (of Belay's workers, over the last one to two minutes), whether they are paused, and how many of their jobs are
quarantined: those run alone. WAITING are jobs that wait until a limit lets them start, which are in no queue: those of
a gate count for the queue of the next of them. "no consumer" marks a queue from which no living process takes jobs, and "late"
one whose oldest job has waited for more than a minute.`

func newQueues(at *redisFlags) *cobra.Command {
	cmd := withJSON(&cobra.Command{
		Use:   "queues",
		Short: "List queues and act on them and their jobs",
		Long:  queuesHelp,
		Example: `  belay queues
  belay queues history --last 1h
  belay queues pause mail
  belay queues list mail --class WelcomeEmail
  belay queues delete mail 217d2cffc30f4a168b3a76d9
  belay queues clear mail --yes`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			s, err := readStatus(context.Background(), i)
			if err == nil {
				err = showAll(cmd, s.Queues, func(t *table) { printQueues(t, s) })
			}
			return cmp.Or(err, s.QueuesErr)
		}),
	})
	cmd.AddCommand(newQueuesHistory(at), newList(at, inQueue, &cobra.Command{
		Use: "list QUEUE", Short: "List the jobs that wait in a queue", Args: oneQueue,
		Long: "Lists the jobs that wait in a queue, the next one first, and after them its quarantined jobs, which run alone. Those of\n" +
			"its jobs that wait for limits are in no queue: see belay list waiting.",
		Example: "  belay queues list mail\n  belay queues list mail --class WelcomeEmail --limit 0 --json",
	}), newFind(at, ofQueue), newClear(at, ofQueue, &cobra.Command{
		Use: "clear QUEUE", Short: "Delete all jobs that wait in a queue", Args: oneQueue,
		Long: `Deletes all jobs that wait in a queue, permanently, the oldest first: quarantined ones, and those that wait until a limit lets
them start, included. It deletes as many jobs as there were when it began. Running jobs are not affected. The queue's name stays in the list.`,
		Example: "  belay queues clear mail --yes\n" +
			"  belay queues pause mail; belay queues clear mail --yes      so that workers take none meanwhile",
	}), newQueueMove(at), newPause(at, "pause", "Stop workers from taking jobs from queues",
		`Stops workers from taking jobs from queues, within a heartbeat. Running jobs go on, pushes are accepted, and due jobs wait
in the queue. Sidekiq's own workers obey it only with Pro. A queue is paused until it is resumed.`, (*inspect.Inspector).Pause),
		newPause(at, "resume", "Let workers take jobs from paused queues again", "Lets workers take jobs from paused queues again.", (*inspect.Inspector).Resume))
	cmd.AddCommand(newActs(at, ofQueue, queueActs)...)
	return cmd
}

// newQueuesHistory makes the command that shows what the dashboard plots over 24 hours.
func newQueuesHistory(at *redisFlags) *cobra.Command {
	var last time.Duration
	cmd := withJSON(&cobra.Command{
		Use:   "history",
		Short: "Show the sizes and latencies of the largest queues over the last day",
		Long: `Shows the sizes of queues and how long their oldest job had been waiting, once a minute: of the twelve largest queues at that
time, the largest first. RUNS and FAILED are how many runs ended and failed in a second since the sample before. Workers of
Belay take the samples, and Redis keeps them for 24 hours. The plots of the dashboard show the same.`,
		Example: "  belay queues history --last 1h\n" +
			"  belay queues history --json | jq -r '.at as $at | .queues[] | select(.name == \"mail\") | [$at, .size, .latency_seconds] | @tsv'",
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			if last <= 0 {
				return usage("--last %v: it must be above 0", last)
			}
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			now, err := i.Now(ctx)
			if err != nil {
				return fmt.Errorf("read the time: %w", err)
			}
			samples, err := i.Samples(ctx, now.Add(-last))
			if err != nil {
				return err
			}
			return showAll(cmd, samples, func(t *table) { printSamples(t, samples) })
		}),
	})
	cmd.Flags().DurationVar(&last, "last", 24*time.Hour, "how long ago the first sample may be")
	return cmd
}

func printSamples(t *table, samples []inspect.Sample) {
	before := inspect.Sample{}
	rows(t, []any{"AT", "RUNS", "FAILED", "QUEUES"}, samples, func(s inspect.Sample) []any {
		runs, failed := "", ""
		if seconds := s.At.Sub(before.At).Seconds(); !before.At.IsZero() && seconds > 0 {
			runs, failed = inspect.PerSecond(float64(s.Processed-before.Processed)/seconds), inspect.PerSecond(float64(s.Failed-before.Failed)/seconds)
		}
		queues := make([]string, len(s.Queues))
		for n, queue := range s.Queues {
			queues[n] = fmt.Sprintf("%s %d (%s)", queue.Name, queue.Size, short(queue.Latency))
		}
		before = s
		return []any{localTime(&s.At), cmp.Or(runs, "-"), cmp.Or(failed, "-"), strings.Join(queues, ", ")}
	})
	t.row(plural(len(samples), "1 sample", "%d samples"))
}

// queueActs are the texts of the commands that act on the jobs of a queue.
var queueActs = map[inspect.Action]actText{
	inspect.Retry: {"Run quarantined jobs of a queue like any others", `Moves quarantined jobs to the backs of their queues and clears their crash counts, so that they need not run alone. Use it
when the cause of the crashes is mended. Jobs that wait in the queue itself run anyway, and stay as they are. Unreadable
entries are refused.`},
	inspect.Kill: {"Move jobs that wait in a queue to the dead set", `Moves jobs that wait in a queue, in its quarantine or for a limit, to the dead set unchanged: they run again only if an operator
retries them. No hook of a program is called. If a worker takes the job at the same moment, the job either runs or is
killed, and this command reports which. A running job is in no queue and cannot be killed: see belay cancel. Unique jobs
release their locks. If a lock promised a rerun for a refused duplicate (see belay locks: dirty), that run follows.

` + youngestMoves},
	inspect.Delete: {"Delete jobs that wait in a queue", `Deletes jobs that wait in a queue, in its quarantine or for a limit, permanently. If a worker takes the job at the same moment, the job
either runs or is deleted, and this command reports which. A running job is in no queue and cannot be deleted.

` + youngestMoves},
}

// youngestMoves describes how an act changes the order of a long queue.
const youngestMoves = `If more than about 8,000 jobs wait before a job that leaves, the youngest job of the queue takes its place, because
closing the gap would block Redis for too long. All other jobs keep their order.`

// moveDetails is what the help of both commands that move jobs says.
const moveDetails = `Only names of queues change in a job: its queue, its retry_queue and an ActiveJob's own queue_name. A unique job keeps its
lock. If only some jobs of a queue are chosen, those among its 8,000 oldest keep their order. Behind them, the youngest
job takes the place of one that is moved, so their order changes.`

// newQueueMove makes the command that rescues jobs from a misspelled queue.
func newQueueMove(at *redisFlags) *cobra.Command {
	a := &act{listing: ofQueue, action: inspect.Move}
	a.cmd = &cobra.Command{
		Use:   "move FROM TO [JID]...",
		Short: "Move jobs from one queue to another",
		Long: `Moves the waiting jobs of a queue to the back of another queue: all of them in the same order, those that match --class,
--error-class, --tag and --text, or those with the given JIDs. Quarantined jobs become quarantined jobs of the other queue. Jobs that wait for
a limit go there too, and line up for it anew. Unreadable entries stay. Running jobs are not affected, and their retries go to the old queue.

` + moveDetails + `

If programs still push to the old queue, run the command again.` + actHelp,
		Example: "  belay queues move mial mail\n  belay queues move default mail --class WelcomeEmail",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" {
				return usage("name the queue to move from and the queue to move to")
			}
			a.to = args[1]
			if err := a.checkTo(args[0]); err != nil {
				return err
			}
			if a.selection.All = len(args) == 2 && a.selection.Filter == (inspect.Filter{}); a.selection.All {
				return nil
			}
			return a.choose(args[2:])
		},
	}
	a.registerFilter(at, "only jobs")
	return a.complete(at)
}

// checkTo checks the target queue of a move.
func (a *act) checkTo(from string) error {
	if err := (inspect.Task{Home: inspect.Waiting(from), Action: a.action, To: a.to}).Check(); err != nil {
		return usage("%w", err)
	}
	return nil
}

// newMove makes the command that gives a class a queue of its own.
func newMove(at *redisFlags) *cobra.Command {
	a := &act{listing: ofQueue, action: inspect.Move}
	a.cmd = withJSON(&cobra.Command{
		Use:   "move --from QUEUE --to QUEUE",
		Short: "Move a class to another queue, with its retries and scheduled jobs",
		Long: `Moves the jobs of a queue to another queue, wherever they are. Waiting jobs go to the back of the other queue, also those
that wait for a limit.
Scheduled jobs, retries and dead jobs stay where they are, and go to the other queue when they run. Use it to move a class
from workers in Ruby to workers in Go, or back, after its pushes name the new queue. A running job is not moved, and its
retry names the old queue: run the command again when the running jobs are done.

` + moveDetails + actHelp,
		Example: "  belay move --class WelcomeEmail --from mail --to go_mail",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || a.selection.Queue == "" || a.to == "" {
				return usage("name the two queues, by --from and --to")
			}
			return a.checkTo(a.selection.Queue)
		},
		RunE: withInspector(at, func(_ *cobra.Command, i *inspect.Inspector, _ []string) error {
			a.inspector = i
			// Jobs go from a set to their queue when they are due, so the queue is the last.
			from := a.selection.Queue
			return a.run([]inspect.Home{inspect.Scheduled(), inspect.Retries(), inspect.Dead(), inspect.Quarantined(from), inspect.Waiting(from)})
		}),
	})
	set := a.cmd.Flags()
	set.StringVar(&a.selection.Queue, "from", "", "the `QUEUE` to move jobs from")
	set.StringVar(&a.to, "to", "", "the `QUEUE` to move them to")
	set.StringVar(&a.selection.Class, "class", "", "only jobs of this `CLASS`; an ActiveJob's own class, not its wrapper")
	a.registerDryRun()
	return a.cmd
}

var oneQueue = oneArg("name one queue")

// newPause makes pause and resume.
func newPause(at *redisFlags, verb, short, long string, act func(*inspect.Inspector, context.Context, string) (changed bool, err error)) *cobra.Command {
	return namedAct{
		use: verb + " QUEUE...", short: short, long: long, past: verb + "d",
		example: fmt.Sprintf("  belay queues %[1]s mail\n  belay queues %[1]s mail reports", verb),
		args:    someArgs("name the queues"),
		do: func(ctx context.Context, i *inspect.Inspector, queue string) (string, bool, error) {
			changed, err := act(i, ctx, queue)
			if err != nil {
				return "", false, err
			}
			note, err := neverPushed(ctx, i, queue, "it")
			return verb + "d" + word(!changed, " already") + word(note != "", " ("+note+")"), true, err
		},
	}.command(at)
}

func printQueues(t *table, s inspect.Status) {
	t.section("queues: " + count(s.QueueCount, len(s.Queues)))
	rows(t, []any{"QUEUE", "SIZE", "LATENCY", "RUNS", "FAILED", "WAITING", ""}, s.Queues, func(q inspect.Queue) []any {
		c := queueCells(q)
		return []any{c[0], c[1], c[2], c[3], c[4], c[5], queueNotes(q)}
	})
}

// queueCells returns the cells of a queue below these heads: QUEUE, SIZE, LATENCY, RUNS, FAILED, WAITING.
func queueCells(q inspect.Queue) []string {
	return []string{
		q.Name, strconv.FormatInt(q.Size, 10), short(q.Latency), cmp.Or(inspect.PerSecond(q.Rate), "-"), cmp.Or(inspect.PerSecond(q.FailedRate), "-"),
		cmp.Or(word(q.Waiting > 0, strconv.FormatInt(q.Waiting, 10)), "-"),
	}
}

// queueNotes returns what is special about a queue.
func queueNotes(queue inspect.Queue) string {
	quarantined := fmt.Sprintf("%d quarantined for %s", queue.Quarantined, short(queue.QuarantinedFor))
	notes := []string{
		word(queue.Paused, "paused"), word(queue.Late(), "late"), word(queue.Quarantined > 0, quarantined), heldByDead(queue.HeldByDead),
		word(queue.NoConsumer, "no consumer"),
	}
	return strings.Join(strings.Fields(strings.Join(notes, " ")), " ")
}

// heldByDead describes how many jobs wait for recovery.
func heldByDead(jobs int64) string {
	return word(jobs > 0, fmt.Sprintf("held by dead workers: %d", jobs))
}
