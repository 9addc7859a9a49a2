package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const findHelp = `Shows where a job is and since when: in a queue, quarantined, running (and in which process),
scheduled, waiting for a retry, dead or, if it was tracked, completed. It reads all places page by page, and reads
them twice before it reports that a job does not exist, because jobs move during the search. It reports its progress
every two seconds. A finished job is found only while it is tracked. For a tracked job the progress and the result are
shown too.

Without a JID it searches for jobs that match all of --class, --text, --queue and --in, in the order scheduled,
queues, running, retries, dead. The text is not a pattern, and its case is ignored. The search ends at --limit or at
--timeout, and then prints a cursor to continue with. Jobs that Sidekiq's workers run are not searched for a text.
"not reported" marks a job in a worker's list that the worker does not report: the job was taken just now, or the
reply to its take was lost and the worker will find it.

With --json it prints one JSON object, or for a search one JSON object a line, with these stable fields:
  jid, state, queue, class, since, at, process, process_state, reported, tracked, looked, unseen, job
state is queue, quarantined, running, scheduled, retry, dead, completed or not_found; tracked has the fields jid,
state (running, retrying, waiting, done, dead, discarded, cancelled or expired), done, total, result, no_result,
ended_at; at is when the job runs; process_state is alive or lapsed; reported is true if the process reports that it
runs the job; looked is the number of entries that were read; unseen lists the places that were not searched to the
end; job has the fields of belay dead --json.

Exit status: 0 if the job was found, or a search ended; 1 if it does not exist, or Redis cannot be read; 2 for a wrong
command line; 5 if the search was incomplete and did not find the job.`

// findTimeout is the default limit of a search: enough for some millions of jobs on a nearby Redis.
const findTimeout = 30 * time.Second

func newFindJob(at *redisFlags) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	var search searchFlags
	cmd := &cobra.Command{
		Use:   "find [JID]",
		Short: "Show where a job is, or search for jobs",
		Long:  findHelp,
		Example: `  belay find 217d2cffc30f4a168b3a76d9
  belay find 217d2cffc30f4a168b3a76d9 --json | jq -r .state
  belay find 217d2cffc30f4a168b3a76d9 --timeout 10m
  belay find --class Report --text 'connection refused' --in retry,dead
  belay find --in running,quarantined`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case search.any(cmd.Flags()) && len(args) == 0:
				if err := search.check(); err != nil {
					return err
				}
			case len(args) != 1 || args[0] == "" || search.any(cmd.Flags()):
				return usage("give one JID, or what to search for")
			}
			switch {
			case timeout <= 0:
				return usage("--timeout %v: it must be above 0", timeout)
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			if len(args) == 0 {
				return search.run(cmd, i, asJSON, timeout)
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			found, err := i.Find(ctx, args[0], searching(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			return printFound(cmd.OutOrStdout(), found, asJSON)
		}),
	}
	search.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, of a search one a line")
	cmd.Flags().DurationVar(&timeout, "timeout", findTimeout, "maximum duration of the search")
	return cmd
}

// searching returns a callback that reports the progress of a search now and then.
func searching(errs io.Writer) func(int, string) {
	reported := time.Now()
	return func(looked int, place string) {
		if now := time.Now(); now.Sub(reported) >= progressEvery {
			reported = now
			_, _ = fmt.Fprintf(errs, "looked at %d entries so far, now in %s\n", looked, plain(place))
		}
	}
}

// printFound prints where a job is. A job that was not found is an error, which is shown on standard error.
func printFound(out io.Writer, found inspect.Found, asJSON bool) error {
	if asJSON {
		if err := printJSON(out, found); err != nil {
			return err
		}
	}
	switch {
	case found.Place == inspect.PlaceNotFound && found.Unseen != "":
		return statusError{fmt.Errorf("not found in the %d entries looked at; %s", found.Looked, found.Unseen), exitUnseen}
	case found.Place == inspect.PlaceNotFound:
		return errors.New("not found: it is done and was not tracked, was deleted, or never existed")
	case asJSON:
		return nil
	}
	_, _ = fmt.Fprintln(out, plain(whereabouts(found)))
	return nil
}

// mostResult is how much of a result is shown on a line.
const mostResult = 200

// whereabouts describes in one line where a job is.
func whereabouts(f inspect.Found) string {
	where := string(f.Place)
	switch f.Place {
	case inspect.PlaceQueue:
		where = "in queue " + f.Queue
	case inspect.PlaceQuarantined:
		where = "quarantined, of queue " + f.Queue
	case inspect.PlaceRunning:
		where = fmt.Sprintf("running in %s (%s), of queue %s", f.Process, f.State, f.Queue)
	case inspect.PlaceRetry:
		where = "waiting for a retry, to queue " + f.Queue
	case inspect.PlaceScheduled:
		where = "scheduled, to queue " + f.Queue
	}
	if f.Place == inspect.PlaceCompleted {
		where = string(f.Tracked.State)
	}
	if f.Class != "" {
		where = cut(f.Class, 40) + ": " + where
	}
	if !f.Since.IsZero() {
		where += ", since " + f.Since.Local().Format(time.DateTime)
	}
	if !f.At.IsZero() {
		where += ", due at " + f.At.Local().Format(time.DateTime)
	}
	if t := f.Tracked; t != nil {
		if t.Total != 0 || t.Done != 0 {
			where += fmt.Sprintf(", progress %d of %d", t.Done, t.Total)
		}
		if t.Result != nil {
			where += ", result " + cut(string(t.Result), mostResult)
		}
		if t.NoResult != "" {
			where += ", without its result: " + t.NoResult
		}
	}
	return where
}
