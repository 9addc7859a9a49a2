package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
)

const locksHelp = `Lists the locks of unique jobs, the first to expire first: the job that holds each lock, for how
long it has held the lock (AGE), and when the lock expires unless it is released or renewed (TTL). While a lock is
held, pushes of equal jobs are refused as duplicates. For a job with RescheduleOnce, STATE is "started" after a run
has begun, and "dirty" if a duplicate was refused since: the job will run once more. "kept" is the lock of a key, or of a
job that is unique until_expired: it stays for its TTL, though the job may have ended.

Locks come and go while the command reads page by page, so a long list is not a snapshot.`

func newLocks(at *redisFlags) *cobra.Command {
	var flags pageFlags
	var class, jid string
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "List and release the locks of unique jobs",
		Long:  locksHelp,
		Example: `  belay locks
  belay locks --class Reindex --limit 0
  belay locks --jid 217d2cffc30f4a168b3a76d9 --json
  belay locks release 1eb362487297344a57fa00353ca18ad6`,
		Args: noWords,
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			total, err := i.LockCount(context.Background())
			if err != nil {
				return err
			}
			wanted := func(lock inspect.UniqueLock) bool {
				return (class == "" || lock.Class == class) && (jid == "" || lock.JID == jid)
			}
			return printPage(cmd, flags, where(i.Locks(context.Background()), wanted), int(total), lockHeads, lockCells)
		}),
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&class, "class", "", "show only this `CLASS`")
	cmd.Flags().StringVar(&jid, "jid", "", "show only the lock of the job with this `JID`")
	cmd.AddCommand(newLockOf(at), newLockRelease(at))
	return cmd
}

func newLockRelease(at *redisFlags) (cmd *cobra.Command) {
	cmd = namedAct{
		use: "release DIGEST...", short: "Release locks", past: "released",
		long: `Releases locks, whatever job holds them, and prints the holders. Use it for locks whose job no longer exists,
for example because it was deleted on Sidekiq's pages: such a lock refuses pushes until it expires.

If the holder still waits or runs, it is not affected, but an equal job may then be pushed and run beside it. If the
lock was dirty, the extra run does not take place, and this command reports that.`,
		example: `  belay locks release 1eb362487297344a57fa00353ca18ad6
  belay locks --class Reindex --limit 0 --json | jq -r .digest | xargs belay locks release`,
		args: someArgs("give digests, as belay locks shows them"),
		do: func(ctx context.Context, i *inspect.Inspector, digest string) (string, bool, error) {
			lock, held, err := i.ReleaseLock(ctx, digest)
			if lock.Dirty {
				printErr(cmd, fmt.Sprintf(
					"%s: it was dirty: a duplicate was refused while %s ran, and no rerun follows; push it again", digest, lock.JID))
			}
			if lock.JID == "" {
				return "released; its value named no job", held, err
			}
			return fmt.Sprintf("released; it was held by %s (%s) for %s", lock.JID, lock.Class, short(lock.Age)), held, err
		},
	}.command(at)
	return cmd
}

// where yields the items of a sequence that are wanted, and its error.
func where[T any](all iter.Seq2[T, error], wanted func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range all {
			if (err != nil || wanted(item)) && !yield(item, err) {
				return
			}
		}
	}
}

var lockHeads = []any{"DIGEST", "CLASS", "JID", "AGE", "TTL", "STATE"}

func lockCells(lock inspect.UniqueLock) []any {
	state := word(lock.Started, "started")
	switch {
	case lock.Dirty:
		state = "dirty"
	case lock.Kept:
		state = "kept"
	}
	return []any{lock.Digest, cut(lock.Class, 40), lock.JID, short(lock.Age), short(lock.TTL), state}
}

// newLockOf makes the command that finds the lock of a job by its class and arguments, or by its key.
func newLockOf(at *redisFlags) *cobra.Command {
	var queue, key string
	var positions []int
	cmd := withJSON(&cobra.Command{
		Use:   "find [CLASS [JSON-ARG]...]",
		Short: "Show the lock that a job would need",
		Long: `Shows which job holds the lock that a job of this class with these arguments would need if it were pushed now. Arguments
that differ only in spelling are equal (1 and 1.0). Give --by if the class is unique by some Fields, and --queue if
it has PerQueue. The locks of classes with UniqueBy cannot be found here, because Go code computes their keys, nor
those of encrypted classes, whose keys need a secret: belay locks --jid finds them.

With --key it shows which job was pushed with this key; belay locks release DIGEST frees the key.`,
		Example: `  belay locks find Reindex 42
  belay locks find Reindex 42 null --by 1
  belay locks find --key stripe:evt_123`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch byKey, others := cmd.Flags().Changed("key"), cmd.Flags().Changed("by") || cmd.Flags().Changed("queue"); {
			case byKey && (len(args) > 0 || others):
				return usage("--key finds the lock of a key: leave out the class, its arguments, --by and --queue")
			case !byKey && len(args) == 0:
				return usage("give the class of the job, such as: belay locks find Reindex 42")
			case byKey:
				return nil
			}
			_, err := joinArgs(args[1:])
			return err
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			find := func() (inspect.UniqueLock, bool, error) { return i.LockOfKey(context.Background(), key) }
			if !cmd.Flags().Changed("key") {
				argsJSON, _ := joinArgs(args[1:]) // checked before
				rule := dedup.Rule{Until: dedup.UntilExecuting, Positions: positions, PerQueue: cmd.Flags().Changed("queue")}
				find = func() (inspect.UniqueLock, bool, error) {
					return i.LockOf(context.Background(), rule, unescape(args[0]), queue, argsJSON)
				}
			}
			lock, held, err := find()
			if err := checkFound(lock.Digest, held, err); err != nil {
				return err
			}
			return show(cmd, lock, func(t *table) { rows(t, lockHeads, []inspect.UniqueLock{lock}, lockCells) })
		}),
	})
	cmd.Flags().StringVarP(&queue, "queue", "q", job.DefaultQueue, "the queue, if it is a part of the job's identity")
	cmd.Flags().StringVar(&key, "key", "", "find the lock of this `KEY` of belay push --key")
	cmd.Flags().IntSliceVar(&positions, "by", nil, "the `ARGUMENTS` that identify the job, counted from 1")
	return cmd
}
