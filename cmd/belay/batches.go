package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const batchesHelp = `Lists the batches. A batch is a number of jobs with callbacks at their common end: jobs that are pushed when each
of them has run once (on complete), when all of them are done (on success), and when the first of them dies (on death).

STATE is "open" until the program that made the batch has sealed it, then "running"; "complete" when each member has run
and some have failed, "dead" when all members that are left have died, and "over" after its success. A nested batch
counts as two members, one of which is dead while the nested batch has dead members; belay batches show says how many
nested batches are not over. A member that failed runs again by itself; one that died only if an operator retries it, and
then it counts. A batch is deleted thirty days after its last push, and a day after its success.

A script makes a batch with belay batches new, pushes members with belay push --batch, and seals it.`

func newBatches(at *redisFlags) *cobra.Command {
	var flags pageFlags
	cmd := &cobra.Command{
		Use:   "batches",
		Short: "List batches, make them and act on them",
		Long:  batchesHelp,
		Example: `  belay batches
  belay batches show 217d2cffc30f4a168b3a76d9
  BID=$(belay batches new --on-success ImportDone -q imports)
  belay push ImportRow 42 --batch "$BID"
  belay batches seal "$BID"`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			total, err := i.BatchCount(context.Background())
			if err != nil {
				return err
			}
			return printPage(cmd, flags, i.Batches(context.Background()), int(total), batchHeads, batchCells)
		}),
	}
	flags.register(cmd)
	cmd.AddCommand(newBatchNew(at), newBatchShow(at), newBatchCheck(at),
		newBatchAct(at, "seal", "Record that no more members are pushed into batches",
			`Seals batches: their programs push no more members. A batch that is not sealed is neither complete nor over. Use
it at the end of a script, and for a batch whose program died before it had sealed it: the members that it has pushed
are then all that there are. Members that run may still push more.`, "sealed", (*inspect.Inspector).SealBatch),
		newBatchAct(at, "invalidate", "Drop the members of batches that have not started",
			`Makes workers drop the members of batches that have not started, as if they were cancelled. Workers learn of it with
their next heartbeat. Dropped members are removed from the batch, so it is over when the running ones are done.`,
			"invalidated", (*inspect.Inspector).InvalidateBatch),
		newBatchAct(at, "delete", "Delete batches, not their jobs",
			`Deletes batches. Their jobs stay where they are and run, and their callbacks are never pushed. A batch in which a
deleted one is nested does not wait for it.`, "deleted", (*inspect.Inspector).DeleteBatch))
	return cmd
}

var batchHeads = []any{"BID", "STATE", "TOTAL", "PENDING", "FAILED", "DEAD", "REMOVED", "AGE", "DESCRIPTION"}

func batchCells(b inspect.Batch) []any {
	return []any{b.ID, b.State, b.Total, b.Pending, b.Failed, b.Dead, b.Removed, short(b.Age), cut(b.Description, 40)}
}

func newBatchShow(at *redisFlags) *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "show BID",
		Short: "Show a batch",
		Long: `Shows a batch: its state, how many members it has, when its callbacks were called, and the jids of some members that
have failed or died. Its figures are not of one instant: while members end, they may not fit together.`,
		Example: `  belay batches show 217d2cffc30f4a168b3a76d9 --json | jq -r .state`,
		Args:    oneArg("give the id of a batch, as belay batches shows it"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			b, found, err := i.Batch(context.Background(), args[0])
			if err := checkFound(args[0], found, err); err != nil {
				return err
			}
			return show(cmd, b, func(t *table) {
				t.field("batch", b.ID)
				t.field("description", b.Description)
				t.field("state", string(b.State))
				t.field("members", batchMembers(b))
				t.field("queue", b.Queue)
				t.field("parent", b.Parent)
				t.instant("created", b.CreatedAt)
				t.instant("complete", b.CompleteAt)
				t.instant("success", b.SuccessAt)
				t.instant("death", b.DeathAt)
				t.instant("invalid", b.InvalidAt)
				t.field("failed", someJIDs(b.FailedJIDs, b.Failed))
				t.field("dead", someJIDs(b.DeadJIDs, b.Dead))
			})
		}),
	})
}

func newBatchCheck(at *redisFlags) *cobra.Command {
	var remove bool
	var limit time.Duration
	cmd := withJSON(&cobra.Command{
		Use:   "check BID",
		Short: "Look for members of a batch that are nowhere",
		Long: `Looks for the job of each member that is pending, and prints the jids of those that are nowhere: a program that knows no
batches, such as Sidekiq, has run or deleted them, or they have died and were not kept. The batch would wait for them for
ever. With --remove they are removed from the batch, which is then complete or over if nothing else is left.`,
		Example: `  belay batches check 217d2cffc30f4a168b3a76d9
  belay batches check 217d2cffc30f4a168b3a76d9 --remove`,
		Args: oneArg("give the id of a batch, as belay batches shows it"),
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			checked, found, err := i.CheckBatch(ctx, args[0], remove)
			if err := checkFound(args[0], found, err); err != nil {
				return err
			}
			err = show(cmd, checked, func(t *table) {
				for _, jid := range checked.Lost {
					t.row(jid)
				}
				t.row(fmt.Sprintf("%s looked for, %s nowhere, %d removed", plural(checked.Looked, "1 member", "%d members"),
					plural(checked.LostCount, "1 is", "%d are"), checked.Removed))
			})
			if err == nil && len(checked.Unseen) > 0 {
				return statusError{fmt.Errorf("not searched to the end: %s", strings.Join(checked.Unseen, "; ")), exitUnseen}
			}
			return err
		}),
	})
	cmd.Flags().BoolVar(&remove, "remove", false, "remove members that are nowhere from the batch")
	cmd.Flags().DurationVar(&limit, "time", time.Minute, "how long to look")
	return cmd
}

// newBatchAct makes a command that does something to each batch that is named.
func newBatchAct(
	at *redisFlags, verb, short, long, past string, act func(*inspect.Inspector, context.Context, string) (found bool, err error),
) *cobra.Command {
	return namedAct{
		use: verb + " BID...", short: short, long: long, past: past,
		example: "  belay batches " + verb + " 217d2cffc30f4a168b3a76d9",
		args:    someArgs("give the ids of batches, as belay batches shows them"),
		do:      doing(past, act),
		look: func(ctx context.Context, i *inspect.Inspector, id string) (string, bool, error) {
			b, found, err := i.Batch(ctx, id)
			return fmt.Sprintf("%s, %s", b.State, batchMembers(b)), found, err
		},
	}.command(at)
}

// someJIDs returns the first of some jids, and how many there are in all.
func someJIDs(jids []string, all int) string {
	shown := jids[:min(len(jids), 10)]
	return strings.Join(shown, ", ") + word(len(shown) > 0 && all > len(shown), fmt.Sprintf(" and %d more", all-len(shown)))
}

// batchMembers describes how many members a batch has.
func batchMembers(b inspect.Batch) string {
	return fmt.Sprintf("%d in all, %d pending, %d failed, %d dead, %d removed", b.Total, b.Pending, b.Failed, b.Dead, b.Removed) +
		word(b.Nested > 0, plural(b.Nested, "; 1 nested batch is not over", "; %d nested batches are not over"))
}

// newBatchNew makes the command that makes a batch.
func newBatchNew(at *redisFlags) *cobra.Command {
	var cfg client.BatchConfig
	var complete, success, death string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a batch, and print its id",
		Long: `Makes a batch and prints its id, for belay push --batch. Seal it with belay batches seal when all members are pushed.
Callbacks are jobs of these classes without arguments; a program of belay work --exec finds the id in BELAY_BATCH.

With --id the batch has this id: a script that repeats all of it after a crash, with the same --jid for the same member,
makes one batch with each member once. A batch that is sealed is not opened again.

It fails while a worker of a version without batches lives, because that worker would not count members.`,
		Example: `  BID=$(belay batches new --on-success ImportDone --on-death ImportAlarm -q imports)
  belay batches new --id import-42 --description "orders of May"`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at.shard != "" {
				return usage("--shard: the id of a batch decides about its shard; leave the flag out")
			}
			if cmd.Flags().Changed("id") { // an empty one is a script's variable that was not set
				if err := lua.CheckBatchID(cfg.ID); err != nil {
					return usage("--id: %w", err)
				}
			}
			if err := job.CheckQueue(cfg.Queue); err != nil {
				return usage("-q: %w", err)
			}
			maker, err := at.connect(client.Config{})
			if err != nil {
				return err
			}
			defer func() { _ = maker.Close() }()
			for of, class := range map[*client.RawJob]string{&cfg.OnComplete: complete, &cfg.OnSuccess: success, &cfg.OnDeath: death} {
				if class != "" {
					*of = client.RawJob{Class: class, Queue: cfg.Queue}
				}
			}
			batch, err := maker.NewBatch(context.Background(), cfg)
			if _, invalid := errors.AsType[*client.InvalidError](err); invalid {
				return statusError{err, exitUsage}
			}
			if err != nil {
				return err
			}
			printLine(cmd, batch.ID())
			return nil
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.ID, "id", "", "the `BID`: 1 to 64 letters, digits, dots, dashes and underscores (default random)")
	set.StringVar(&cfg.Description, "description", "", "a `TEXT` for people")
	set.StringVar(&complete, "on-complete", "", "push a job of this `CLASS` when each member has run once")
	set.StringVar(&success, "on-success", "", "push a job of this `CLASS` when all members are done")
	set.StringVar(&death, "on-death", "", "push a job of this `CLASS` when the first member dies")
	set.StringVarP(&cfg.Queue, "queue", "q", client.DefaultQueue, "queue of the callbacks")
	return cmd
}
