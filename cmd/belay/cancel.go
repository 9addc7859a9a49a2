package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const cancelHelp = `Cancels jobs, wherever they are, and prints what happened to each:
  removed   the job waited and was removed: it will not run
  stopping  a worker has the job, and drops it before its start or ends its context within a heartbeat. The job is not
            retried. If its handler succeeds all the same, the job is done
  marked    the job was not found (it may have just ended), or its worker cannot stop it: a worker of an older version, or
            Sidekiq, which stops only iterable jobs. A worker of Belay that takes the job within thirty days drops it; one
            that takes it before its next heartbeat, within a few seconds, ends its context after that heartbeat
  done      the job had ended before, and is unchanged: it is in the dead set, or it is a tracked job that has completed

A job that is pushed or retried by an operator afterwards is not affected, even if it has the same jid. The search reads all
waiting jobs and ends at --timeout. At most 10,000 jobs that were not found, or have not ended yet, are marked at a time: beyond
them nothing more is cancelled, and the exit status is 1.`

func newCancel(at *redisFlags) *cobra.Command {
	var timeout time.Duration
	cmd := withJSON(&cobra.Command{
		Use:   "cancel JID...",
		Short: "Cancel jobs, waiting or running",
		Long:  cancelHelp,
		Example: `  belay cancel 217d2cffc30f4a168b3a76d9
  belay cancel 217d2cffc30f4a168b3a76d9 --json | jq -r .result
  belay find --class Report --json | jq -r .jid | xargs belay cancel`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("which jobs? Give one or more JIDs")
			}
			return checkTimeout(timeout)
		},
		RunE: withFleet(at, func(cmd *cobra.Command, f *inspect.Fleet, args []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			results, err := f.Cancel(ctx, args...)
			return printCancelled(cmd, results, err)
		}),
	})
	cmd.Flags().DurationVar(&timeout, "timeout", findTimeout, "maximum duration of the search")
	return cmd
}

// printCancelled prints what happened to each job. Jobs that were not cancelled are an error. If Cancel itself
// has failed, its error is the answer: a job that the search had not found by then need not be absent, and one
// with which nothing had happened has no result.
func printCancelled(cmd *cobra.Command, results []inspect.ShardCancellation, failed error) error {
	results = slices.DeleteFunc(results, func(r inspect.ShardCancellation) bool { return r.Result == "" })
	err := showAll(cmd, results, func(t *table) {
		for _, r := range results {
			t.row(r.JID + " " + string(r.Result) + cancelNote(r.Cancellation) + onShard(r.Shard))
		}
	})
	left, marked, unseen := 0, 0, ""
	for _, r := range results {
		if r.Result == inspect.CancelMarked {
			marked++
		}
		if r.Result == inspect.CancelMarked || r.Result == inspect.CancelDone {
			left++
		}
		if r.Unseen != "" {
			unseen = r.Unseen
		}
	}
	switch {
	case failed != nil && marked > 0:
		return fmt.Errorf("%w (%s marked before; run it again to look for the rest)", failed, plural(marked, "1 job was", "%d jobs were"))
	case failed != nil:
		return failed
	case err != nil:
		return err
	case unseen != "":
		return statusError{fmt.Errorf("%d of %d jobs were not found, and the search was incomplete; %s", left, len(results), unseen), exitUnseen}
	case left > 0:
		return statusError{fmt.Errorf("%d of %d jobs were not cancelled", left, len(results)), exitAbsent}
	}
	return nil
}

// cancelNote says where a job was.
func cancelNote(r inspect.Cancellation) string {
	switch {
	case r.Result == inspect.CancelStopping:
		return " (in " + r.Process + ")"
	case r.Process != "":
		return " (runs in " + r.Process + ", which ignores marks)"
	case r.Unseen != "":
		return " (not found before the search ended; workers drop it after their next heartbeat)"
	case r.Result == inspect.CancelMarked:
		return " (not found; workers drop it after their next heartbeat)"
	case r.Place == inspect.PlaceDead:
		return " (in the dead set)"
	case r.Place == inspect.PlaceCompleted:
		return " (completed)"
	}
	return " (from " + string(r.Place) + ")"
}
