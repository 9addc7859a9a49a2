package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const locksHelp = `Shows the locks that unique jobs hold, those that would lapse first first: whose each is, for how long the job has had it (AGE),
and after how long it lapses if nobody releases or renews it (TTL). While a lock is held, a push of another job that counts as
the same is refused as a duplicate. Of a job with reschedule once STATE is "started" when a run of it has begun, and "dirty" when a
duplicate was refused since, for which it will be run once more.

Locks come and go while it reads, page by page, so a long list is no snapshot.

With --json it prints one JSON object a line, whose fields stay as they are:
  digest, jid, class, started, dirty, taken_at, age_seconds, ttl_seconds, and, where refused duplicates left positions in
  write-ahead logs for the job, dedup_wal_locations
The instant is by Redis' clock.

Exit status: 0; 1 when Redis cannot be read; 2 for a wrong command line.`

// lockFlags say which locks are shown.
type lockFlags struct {
	class, jid    string
	limit, offset int
	asJSON        bool
}

func newLocks(at *redisFlags) *cobra.Command {
	var flags lockFlags
	cmd := &cobra.Command{
		Use:   "locks",
		Short: "Show and release the locks of unique jobs",
		Long:  locksHelp,
		Example: `  belay locks
  belay locks --class Reindex --limit 0
  belay locks --jid 217d2cffc30f4a168b3a76d9 --json
  belay locks release 1eb362487297344a57fa00353ca18ad6`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withInspector(at, func(i *inspect.Inspector) error { return flags.list(cmd, i) })
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.class, "class", "", "only those of this `CLASS`")
	set.StringVar(&flags.jid, "jid", "", "only that of the job with this `JID`")
	set.IntVar(&flags.limit, "limit", 25, "how many to show; 0 is all")
	set.IntVar(&flags.offset, "offset", 0, "how many of them to pass over first")
	set.BoolVar(&flags.asJSON, "json", false, "print one JSON object a line")
	cmd.AddCommand(newLockRelease(at))
	return cmd
}

func (f *lockFlags) wants(lock inspect.Lock) bool {
	return (f.class == "" || lock.Class == f.class) && (f.jid == "" || lock.JID == f.jid)
}

func (f *lockFlags) list(cmd *cobra.Command, i *inspect.Inspector) error {
	if f.limit < 0 || f.offset < 0 {
		return usage("--limit and --offset are not negative")
	}
	ctx := context.Background() // nothing is left behind when a signal ends it
	total, err := i.LockCount(ctx)
	if err != nil {
		return err
	}
	shown := lockTable{out: cmd.OutOrStdout(), asJSON: f.asJSON}
	passed := 0
	for lock, err := range i.Locks(ctx) {
		switch {
		case err != nil:
			return err
		case !f.wants(lock):
			continue
		case passed < f.offset:
			passed++
			continue
		}
		if err := shown.add(lock); err != nil {
			return err
		}
		if shown.rows == f.limit {
			break
		}
	}
	return shown.end(total)
}

// A lockTable prints locks, some at a time so that columns fit and memory does not grow.
type lockTable struct {
	out    io.Writer
	asJSON bool
	tabs   *tabwriter.Writer
	rows   int
}

func (t *lockTable) add(lock inspect.Lock) error {
	t.rows++
	if t.asJSON {
		return printJSON(t.out, lock)
	}
	if t.tabs == nil {
		t.tabs = tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t.tabs, "DIGEST\tCLASS\tJID\tAGE\tTTL\tSTATE")
	}
	_, _ = fmt.Fprintln(t.tabs, strings.TrimRight(strings.Join([]string{
		plain(lock.Digest), plain(cut(lock.Class, 40)), plain(lock.JID), short(lock.Age), short(lock.TTL), lockState(lock),
	}, "\t"), "\t"))
	if t.rows%rowsAtOnce == 0 {
		return t.tabs.Flush()
	}
	return nil
}

func (t *lockTable) end(total int64) error {
	if t.asJSON {
		return nil
	}
	if t.tabs != nil {
		if err := t.tabs.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.out, "%d of %d\n", t.rows, max(total, int64(t.rows)))
	return err
}

func lockState(lock inspect.Lock) string {
	switch {
	case lock.Dirty:
		return "dirty"
	case lock.Started:
		return "started"
	}
	return ""
}

func newLockRelease(at *redisFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "release DIGEST...",
		Short: "Free locks",
		Long: `Frees locks, whoever holds them, and says whose they were. It is for locks whose job is gone without a trace, such as one that was
deleted on Sidekiq's pages; such a lock would refuse others until it lapses.

A job that still waits or runs is not touched: another that counts as the same may then be pushed, and run beside it. If the
lock was dirty, the run that it promised does not take place, and this command says so.

Exit status: 0 when all were freed; 1 when Redis cannot be reached; 2 for a wrong command line; 4 when one of them was not held.`,
		Example: `  belay locks release 1eb362487297344a57fa00353ca18ad6
  belay locks --class Reindex --limit 0 --json | jq -r .digest | xargs belay locks release`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("give digests, as belay locks shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInspector(at, func(i *inspect.Inspector) error { return releaseLocks(cmd, i, args) })
		},
	}
}

func releaseLocks(cmd *cobra.Command, i *inspect.Inspector, digests []string) error {
	ctx, stop := untilSignal()
	defer stop()
	var missing []string
	for _, digest := range digests {
		lock, held, err := i.ReleaseLock(ctx, digest)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w; this one may have been released: %s", context.Cause(ctx), digest)
		case err != nil:
			return err
		case !held:
			missing = append(missing, digest)
			continue
		}
		if lock.JID == "" {
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: released; what stood there named no job\n", plain(digest))
			continue
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: released; it was held by %s (%s) for %s\n", plain(digest), plain(lock.JID), plain(lock.Class), short(lock.Age))
		if lock.Dirty {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: it was dirty: a duplicate was refused while %s ran, and will not be run for; push it again\n",
				plain(digest), plain(lock.JID))
		}
	}
	if len(missing) > 0 {
		return absent(missing)
	}
	return nil
}
