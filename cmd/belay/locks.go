package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const locksHelp = `Lists the locks of unique jobs, the first to expire first: the job that holds each lock, for how
long it has held the lock (AGE), and when the lock expires unless it is released or renewed (TTL). While a lock is
held, pushes of equal jobs are refused as duplicates. For a job with RescheduleOnce, STATE is "started" after a run
has begun, and "dirty" if a duplicate was refused since: the job will run once more.

Locks come and go while the command reads page by page, so a long list is not a snapshot.

With --json it prints one JSON object a line, with these stable fields:
  digest, jid, class, started, dirty, taken_at, age_seconds, ttl_seconds, and, if refused duplicates left positions of
  write-ahead logs, dedup_wal_locations
taken_at is by Redis' clock.

Exit status: 0; 1 if Redis cannot be read; 2 for a wrong command line.`

func newLocks(at *redisFlags) *cobra.Command {
	var flags pageFlags
	var jid string
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
			wanted := func(lock inspect.Lock) bool {
				return (flags.class == "" || lock.Class == flags.class) && (jid == "" || lock.JID == jid)
			}
			return printPage(cmd.OutOrStdout(), flags, i.Locks(context.Background()), int(total), wanted,
				lockHeads, lockCells)
		}),
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&jid, "jid", "", "show only the lock of the job with this `JID`")
	cmd.AddCommand(newLockOf(at), &cobra.Command{
		Use:   "release DIGEST...",
		Short: "Release locks",
		Long: `Releases locks, whatever job holds them, and prints the holders. Use it for locks whose job no longer exists,
for example because it was deleted on Sidekiq's pages: such a lock refuses pushes until it expires.

If the holder still waits or runs, it is not affected, but an equal job may then be pushed and run beside it. If the
lock was dirty, the extra run does not take place, and this command reports that.

Exit status: 0 if all were released; 1 if Redis cannot be reached; 2 for a wrong command line; 4 if one was not held.`,
		Example: `  belay locks release 1eb362487297344a57fa00353ca18ad6
  belay locks --class Reindex --limit 0 --json | jq -r .digest | xargs belay locks release`,
		Args: someArgs("give digests, as belay locks shows them"),
		RunE: withInspector(at, releaseLocks),
	})
	return cmd
}

var lockHeads = []any{"DIGEST", "CLASS", "JID", "AGE", "TTL", "STATE"}

func lockCells(lock inspect.Lock) []any {
	state := word(lock.Started, "started")
	if lock.Dirty {
		state = "dirty"
	}
	return []any{lock.Digest, cut(lock.Class, 40), lock.JID, short(lock.Age), short(lock.TTL), state}
}

func releaseLocks(cmd *cobra.Command, i *inspect.Inspector, digests []string) error {
	ctx, stop := untilSignal()
	defer stop()
	var missing []string
	for _, digest := range digests {
		lock, held, err := i.ReleaseLock(ctx, digest)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w; this lock may have been released: %s", context.Cause(ctx), digest)
		case err != nil:
			return err
		case !held:
			missing = append(missing, digest)
			continue
		}
		holder := fmt.Sprintf("it was held by %s (%s) for %s", lock.JID, lock.Class, short(lock.Age))
		if lock.JID == "" {
			holder = "its value named no job"
		}
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), plain(digest+": released; "+holder))
		if lock.Dirty {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), plain(fmt.Sprintf(
				"%s: it was dirty: a duplicate was refused while %s ran, and no rerun follows; push it again", digest, lock.JID)))
		}
	}
	if len(missing) > 0 {
		return absent(missing)
	}
	return nil
}
