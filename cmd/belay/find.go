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

const findHelp = `Tells where a job is and since when: in a queue, quarantined, running (in which process), scheduled, waiting for a retry or
dead. It looks through everything page by page, twice before it says that a job is not there, because jobs move meanwhile; of a
long search it says every two seconds how far it has come. A job that is done is nowhere.

With --json it prints one JSON object, whose fields stay as they are:
  jid, state, queue, class, since, at, process, process_state, looked, unseen, job
state is queue, quarantined, running, scheduled, retry, dead or not_found; at is when the job runs; process_state is alive or
lapsed; looked is how many entries were looked at, and unseen says what was not looked through; job has the fields of belay dead --json.

Exit status: 0 when it was found; 1 when it is not there, or Redis cannot be read; 2 for a wrong command line; 5 when not all was
looked through, and it was not found in the rest.`

// findTimeout is how long a search takes at most unless it is told otherwise: some millions of jobs near by.
const findTimeout = 30 * time.Second

func newFindJob(at *redisFlags) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "find JID",
		Short:   "Tell where a job is",
		Long:    findHelp,
		Example: "  belay find 217d2cffc30f4a168b3a76d9\n  belay find 217d2cffc30f4a168b3a76d9 --json | jq -r .state\n  belay find 217d2cffc30f4a168b3a76d9 --timeout 10m",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1 || args[0] == "":
				return usage("give one JID")
			case timeout <= 0:
				return usage("--timeout %v: it is above 0", timeout)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInspector(at, func(i *inspect.Inspector) error {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				found, err := i.Find(ctx, args[0], searching(cmd.ErrOrStderr()))
				if err != nil {
					return err
				}
				return tellFound(cmd.OutOrStdout(), found, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().DurationVar(&timeout, "timeout", findTimeout, "how long to look at most")
	return cmd
}

// searching says every so often how far a search has come.
func searching(errs io.Writer) func(int, string) {
	told := time.Now()
	return func(looked int, place string) {
		if now := time.Now(); now.Sub(told) >= progressEvery {
			told = now
			_, _ = fmt.Fprintf(errs, "looked at %d entries so far, now in %s\n", looked, plain(place))
		}
	}
}

// tellFound prints where a job is. That it is nowhere is an error, whose text standard error shows.
func tellFound(out io.Writer, found inspect.Found, asJSON bool) error {
	if asJSON {
		if err := printJSON(out, found); err != nil {
			return err
		}
	}
	switch {
	case found.Place == inspect.PlaceNotFound && found.Unseen != "":
		return unseenError{fmt.Errorf("not found in the %d entries looked at; %s", found.Looked, found.Unseen)}
	case found.Place == inspect.PlaceNotFound:
		return errors.New("not found: it is done, or was deleted, or never was")
	case asJSON:
		return nil
	}
	_, err := fmt.Fprintln(out, plain(whereabouts(found)))
	return err
}

// An unseenError says that what was sought was not found, and that not all was looked through.
type unseenError struct{ error }

// whereabouts is where a job is, in one line.
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
