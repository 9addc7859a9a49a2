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

const findHelp = `Shows where a job is and since when: in a queue, quarantined, running (and in which process), scheduled, waiting
for a retry, or dead. It reads all places page by page, and reads them twice before it reports that a job does not exist,
because jobs move during the search. It reports its progress every two seconds. A finished job is not found.

With --json it prints one JSON object, whose fields stay as they are:
  jid, state, queue, class, since, at, process, process_state, looked, unseen, job
state is queue, quarantined, running, scheduled, retry, dead or not_found; at is when the job runs; process_state is alive or
lapsed; looked is the number of entries that were read; unseen lists the places that were not searched to the end; job has
the fields of belay dead --json.

Exit status: 0 if the job was found; 1 if it does not exist, or Redis cannot be read; 2 for a wrong command line; 5 if the
search was incomplete and did not find the job.`

// findTimeout is the default limit of a search: enough for some millions of jobs on a nearby Redis.
const findTimeout = 30 * time.Second

func newFindJob(at *redisFlags) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "find JID",
		Short: "Show where a job is",
		Long:  findHelp,
		Example: `  belay find 217d2cffc30f4a168b3a76d9
  belay find 217d2cffc30f4a168b3a76d9 --json | jq -r .state
  belay find 217d2cffc30f4a168b3a76d9 --timeout 10m`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1 || args[0] == "":
				return usage("give one JID")
			case timeout <= 0:
				return usage("--timeout %v: it must be above 0", timeout)
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			found, err := i.Find(ctx, args[0], searching(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			return printFound(cmd.OutOrStdout(), found, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
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
		return errors.New("not found: it is done, was deleted, or never existed")
	case asJSON:
		return nil
	}
	_, _ = fmt.Fprintln(out, plain(whereabouts(found)))
	return nil
}

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
	if f.Class != "" {
		where = cut(f.Class, 40) + ": " + where
	}
	if !f.Since.IsZero() {
		where += ", since " + f.Since.Local().Format(time.DateTime)
	}
	if !f.At.IsZero() {
		where += ", due at " + f.At.Local().Format(time.DateTime)
	}
	return where
}
