package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

const findHelp = `Shows where a job is and since when: in a queue, quarantined, waiting until a limit lets it start (at which gate, and
its place in line), running (and in which process), scheduled, waiting for a retry, dead or, if it was tracked, completed. It reads all places page by page, and reads
them twice before it reports that a job does not exist, because jobs move during the search. It reports its progress
every two seconds. It says if a waiting
job is not started because its class or its queue is paused, or because no process takes from the queue. A finished job is found only while it is tracked. For a tracked job the progress and the result are
shown too.

Without a JID it searches for jobs that match all of --class, --error-class, --tag, --text, --queue and --in, in the order
scheduled, waiting, queues, running, retries, dead. The text is not a pattern, and its case is ignored. The search ends at --limit or at
--timeout, and then prints a cursor to continue with. Jobs that Sidekiq's workers run are not searched for a text.
"not reported" marks a job in a worker's list that the worker does not report: the job was taken just now, or the
reply to its take was lost and the worker will find it.`

// findTimeout is the default limit of a search: enough for some millions of jobs on a nearby Redis.
const findTimeout = 30 * time.Second

func newFindJob(at *redisFlags) *cobra.Command {
	var timeout time.Duration
	var search searchFlags
	cmd := withJSON(&cobra.Command{
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
			return checkTimeout(timeout)
		},
		RunE: withFleet(at, func(cmd *cobra.Command, f *inspect.Fleet, args []string) error {
			if len(args) == 0 {
				return search.run(cmd, f, timeout)
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			found, err := f.FindAll(ctx, inspect.Query{IDs: args}, searching(cmd))
			if err != nil {
				return err
			}
			return printFound(cmd, found[0])
		}),
	})
	search.register(at.masking(cmd).Flags())
	at.completeFilter(cmd, nil)
	_ = cmd.RegisterFlagCompletionFunc("in", completeList(placeNames()))
	cmd.Flags().DurationVar(&timeout, "timeout", findTimeout, "maximum duration of the search")
	return cmd
}

// newFind makes the command below a listing that shows all fields of its jobs.
func newFind(at *redisFlags, l listing) *cobra.Command {
	return at.masking(withJSON(&cobra.Command{
		Use:   "find " + l.queue + "JID...",
		Short: "Show all fields of jobs",
		Long: `Shows all fields of jobs, with their last error. It reads page by page, and reads twice before it reports that a
job is not there, as belay find does.`,
		Example: l.example("  belay %[1]s find %[2]s217d2cffc30f4a168b3a76d9\n" +
			"  belay %[1]s find %[2]s217d2cffc30f4a168b3a76d9 --json | jq .args"),
		Args: func(_ *cobra.Command, args []string) error {
			if _, ids, err := l.query(args); err != nil || len(ids) == 0 {
				return usage("give %sa JID from the list", strings.ToLower(strings.ReplaceAll(l.queue, "QUEUE", "the queue and")))
			}
			return nil
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
			query, ids, _ := l.query(args) // checked before
			query.IDs = ids
			found, err := i.FindAll(context.Background(), query, searching(cmd))
			if err != nil {
				return err
			}
			return printEntries(cmd, found)
		}),
	}))
}

// printEntries prints all fields of the jobs that were found. Those that were not are an error.
func printEntries(cmd *cobra.Command, all []inspect.Found) error {
	var missing []string
	for _, found := range all {
		switch {
		case found.Entry != nil:
			found.Entry.Describe()
			if err := show(cmd, found.Entry, func(t *table) { printEntry(t, *found.Entry) }); err != nil {
				return err
			}
		case found.Unseen != "":
			return errors.New(found.Unseen)
		default:
			missing = append(missing, found.JID)
		}
	}
	return absent(missing)
}

func checkTimeout(timeout time.Duration) error {
	if timeout <= 0 {
		return usage("--timeout %v: it must be above 0", timeout)
	}
	return nil
}

// searching returns a callback that reports the progress of a search from time to time.
func searching(cmd *cobra.Command) func(int, string) {
	reported := time.Now()
	return func(looked int, place string) {
		if now := time.Now(); now.Sub(reported) >= progressEvery {
			reported = now
			printErr(cmd, fmt.Sprintf("looked at %d entries so far, now in %s", looked, place))
		}
	}
}

// printFound prints where a job is. A job that was not found is an error, which is shown on standard error.
func printFound(cmd *cobra.Command, found inspect.ShardFound) error {
	if found.Entry != nil {
		found.Entry.Describe()
	}
	err := show(cmd, found, func(t *table) {
		if found.Place != inspect.PlaceNotFound {
			t.row(whereabouts(found.Found) + onShard(found.Shard))
		}
		if found.Entry != nil {
			for _, past := range found.Entry.Errors {
				t.row("failed run " + pastError(past))
			}
		}
	})
	switch {
	case err != nil:
		return err
	case found.Place == inspect.PlaceNotFound && found.Unseen != "":
		return statusError{fmt.Errorf("not found in the %d entries looked at; %s", found.Looked, found.Unseen), exitUnseen}
	case found.Place == inspect.PlaceNotFound:
		return errors.New("not found: it is done and was not tracked, was deleted, or never existed")
	}
	return nil
}

// onShard says on which shard a job is, if there are several.
func onShard(name string) string {
	if name == "" {
		return ""
	}
	return ", on shard " + name
}

// maxShown is how much of a result or an error is shown on a line.
const maxShown = 200

// whereabouts describes in one line where a job is.
func whereabouts(f inspect.Found) string {
	where := map[inspect.Place]string{
		inspect.PlaceQueue:       "in queue " + f.Queue,
		inspect.PlaceQuarantined: "quarantined, of queue " + f.Queue,
		inspect.PlaceWaiting:     fmt.Sprintf("waiting at gate %s, number %d in line, of queue %s", f.Gate, f.Line, f.Queue),
		inspect.PlaceRunning:     fmt.Sprintf("running in %s (%s), of queue %s", f.Process, f.State, f.Queue),
		inspect.PlaceRetry:       "waiting for a retry, to queue " + f.Queue,
		inspect.PlaceScheduled:   "scheduled, to queue " + f.Queue,
		inspect.PlaceDead:        "dead",
	}[f.Place]
	switch {
	case f.Place == inspect.PlaceCompleted:
		where = string(f.Tracked.State)
	case f.Gate != "" && f.Place == inspect.PlaceQueue:
		where += ", admitted at gate " + f.Gate
	case f.Gate != "" && f.Place == inspect.PlaceRunning:
		where += ", with a slot of gate " + f.Gate
	}
	where = word(f.Class != "", cut(f.Class, 40)+": ") + where
	if !f.Since.IsZero() {
		where += ", since " + localTime(&f.Since)
	}
	where += word(f.Held != "", ", "+f.HeldWords())
	if !f.At.IsZero() {
		where += ", due at " + localTime(&f.At)
	}
	if e := f.Entry; e != nil && e.Attempt > 0 {
		where += ", failed runs: " + e.FailedRuns()
		if text := remark(*e); text != "" {
			where += ", the last with " + cut(text, maxShown)
		}
	}
	if e := f.Entry; e != nil && e.Details != nil {
		where += word(e.Details.Batch != "", ", in batch "+e.Details.Batch) + word(e.Details.CallbackOf != "", ", a callback of batch "+e.Details.CallbackOf)
		if next := e.Details.Next; len(next) > 0 {
			where += fmt.Sprintf(", next jobs: %d, %s", len(next), cut(inspect.NextNames(next), maxShown))
		}
	}
	if t := f.Tracked; t != nil {
		if t.Total != 0 || t.Done != 0 {
			where += fmt.Sprintf(", progress %d of %d", t.Done, t.Total)
		}
		if t.Result != nil {
			where += ", result " + cut(string(t.Result), maxShown)
		}
		if t.NoResult != "" {
			where += ", without its result: " + t.NoResult
		}
		if t.ErrorClass != "" && (f.Entry == nil || f.Entry.ErrorClass == "") {
			where += ", the last run failed with " + cut(t.ErrorClass+": "+t.ErrorMessage, maxShown)
		}
	}
	return where
}

// searchFlags select jobs wherever they are.
type searchFlags struct {
	query  inspect.Query
	places []string
}

func (f *searchFlags) register(set *pflag.FlagSet) {
	registerFilter(set, &f.query.Filter, "jobs")
	set.StringVarP(&f.query.Queue, "queue", "q", "", "jobs of this queue")
	set.StringSliceVar(&f.places, "in", nil, "only in these `PLACES`: "+strings.Join(placeNames(), ", "))
	set.IntVar(&f.query.Limit, "limit", 25, "how many to show, at most 1000")
	set.StringVar(&f.query.Cursor, "cursor", "", "continue a search that printed this `CURSOR`")
}

// placeNames returns the values of --in.
func placeNames() (names []string) {
	for _, place := range inspect.Places() {
		names = append(names, string(place))
	}
	return names
}

// any reports whether the flags ask for a search instead of one job.
func (f *searchFlags) any(set *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"class", "error-class", "tag", "text", "queue", "in", "cursor"}, set.Changed)
}

func (f *searchFlags) check() error {
	if f.query.Limit < 1 || f.query.Limit > 1000 {
		return usage("--limit %d: it must be from 1 to 1000", f.query.Limit)
	}
	f.query.Places = nil
	for _, name := range f.places {
		if names := placeNames(); !slices.Contains(names, name) {
			return usage("--in %s: it must be one of %s", name, strings.Join(names, ", "))
		}
		f.query.Places = append(f.query.Places, inspect.Place(name))
	}
	return nil
}

// run prints the jobs that were found, and how to continue. An incomplete search that found nothing is an
// error, because a script would take it for none.
func (f *searchFlags) run(cmd *cobra.Command, fleet *inspect.Fleet, timeout time.Duration) error {
	f.query.Time = timeout
	results, err := fleet.Search(context.Background(), f.query)
	if err != nil {
		return err
	}
	err = showAll(cmd, results.Found, func(t *table) {
		heads := []any{"JID", "CLASS", "STATE", "QUEUE", "SINCE", "PROCESS"}
		sharded := len(fleet.Shards()) > 1
		if sharded {
			heads = append([]any{"SHARD"}, heads...)
		}
		rows(t, heads, results.Found, func(found inspect.ShardFound) []any {
			since := ""
			if !found.Since.IsZero() {
				since = localTime(&found.Since)
			}
			process := strings.TrimSpace(found.Process + " " + word(found.State == inspect.StateLapsed, "(lapsed)"))
			if found.Place == inspect.PlaceRunning && !found.Reported {
				process += ", not reported"
			}
			cells := []any{found.JID, cut(found.Class, 40), string(found.Place), found.Queue, since, process}
			if sharded {
				cells = append([]any{found.Shard}, cells...)
			}
			return cells
		})
	})
	for _, unseen := range results.Unseen {
		cmd.PrintErrln(plain(unseen))
	}
	if results.Next != "" {
		cmd.PrintErrf("%d entries were read; to continue: --cursor %s\n", results.Looked, results.Next)
	}
	if incomplete := results.Next != "" || len(results.Unseen) > 0; err == nil && incomplete && len(results.Found) == 0 {
		return statusError{errors.New("nothing was found, and the search was incomplete"), exitUnseen}
	}
	return err
}
