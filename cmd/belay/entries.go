package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

const listHelp = `

Jobs come and go while the command reads page by page, so a long list is not a snapshot. Control characters in a job
are shown as escapes. An unreadable entry is shown with the reason.`

// pageFlags select a part of a list and the output format.
type pageFlags struct{ limit, offset int }

func (f *pageFlags) register(cmd *cobra.Command) {
	set := withJSON(cmd).Flags()
	set.IntVar(&f.limit, "limit", 25, "how many to show; 0 for all")
	set.IntVar(&f.offset, "offset", 0, "how many to skip first")
}

func (f *pageFlags) check() error {
	if f.limit < 0 || f.offset < 0 {
		return usage("--limit and --offset must not be negative")
	}
	return nil
}

// printPage prints the page of a sequence that the flags select, as JSON or as rows below heads, and a last
// line with the number of rows and the total.
func printPage[T any](
	cmd *cobra.Command, f pageFlags, all iter.Seq2[T, error], total int, heads []any, cells func(T) []any,
) error {
	t, json := tableOf(cmd), asJSON(cmd)
	rows, skipped := 0, 0
	for item, err := range all {
		switch {
		case err != nil:
			return err
		case skipped < f.offset:
			skipped++
			continue
		case json:
			if err := printJSON(cmd, item); err != nil {
				return err
			}
		default:
			if rows == 0 {
				t.head(heads...)
			}
			t.row(cells(item)...)
		}
		if rows++; rows == f.limit {
			break
		}
	}
	if json {
		return nil
	}
	t.row(fmt.Sprintf("%d of %d", rows, max(total, rows)))
	return t.Flush()
}

// registerFilter adds the flags that choose jobs by their payloads, for lists, searches and acts alike. jobs is
// what they choose, such as "only jobs".
func registerFilter(set *pflag.FlagSet, f *inspect.Filter, jobs string) {
	set.StringVar(&f.Class, "class", "", jobs+" of this `CLASS`")
	set.StringVar(&f.ErrorClass, "error-class", "", jobs+" whose last error is of this `CLASS`")
	set.StringVar(&f.Tag, "tag", "", jobs+" with this `TAG`")
	set.StringVar(&f.Text, "text", "", jobs+" with this `TEXT` in their arguments, error or tags, in any case")
}

// filterWords describes a filter, for a question.
func filterWords(f inspect.Filter) (words string) {
	for _, part := range [][2]string{{" of class ", f.Class}, {" with the error ", f.ErrorClass}, {" with the tag ", f.Tag}, {" of queue ", f.Queue}} {
		words += word(part[1] != "", part[0]+part[1])
	}
	return words + word(f.Text != "", fmt.Sprintf(" with the text %q", f.Text))
}

// completeFilter completes the classes of jobs and of errors, of the first jobs in these places.
func (f *redisFlags) completeFilter(cmd *cobra.Command, places []inspect.Place) {
	for flag, of := range map[string]func(inspect.Group) string{
		"class":       func(g inspect.Group) string { return g.Class },
		"error-class": func(g inspect.Group) string { return g.ErrorClass },
	} {
		names := func(i *inspect.Inspector, ctx context.Context) (names []string, err error) {
			groups, err := i.Groups(ctx, inspect.Query{Places: places, Time: completeTimeout / 2})
			for _, group := range groups.Groups {
				if name := of(group); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			return names, err
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, f.completeNames(func(int) readNames { return names }))
	}
}

// A listing is what a command lists, and the commands below it find and act on: a set, or a queue with its
// quarantined jobs and those of its jobs that wait for limits.
type listing struct {
	command  string          // such as "dead"
	places   []inspect.Place // where the jobs are; empty for all places
	queue    string          // the argument that names the queue, with a space; empty for a set
	anywhere bool            // the first argument names the place
}

var (
	ofQueue = listing{command: "queues", places: []inspect.Place{inspect.PlaceQueue, inspect.PlaceQuarantined, inspect.PlaceWaiting}, queue: "QUEUE "}
	// inQueue is what belay queues list shows: belay list waiting shows the others.
	inQueue = listing{command: ofQueue.command, places: ofQueue.places[:2], queue: ofQueue.queue}
)

func ofSet(home inspect.Home) listing {
	return listing{command: home.String(), places: []inspect.Place{home.Place()}}
}

// query returns a query of the listing's jobs, and the arguments after the queue.
func (l listing) query(args []string) (inspect.Query, []string, error) {
	query := inspect.Query{Places: l.places}
	if l.anywhere {
		place, queue, rest, err := placeOf(args)
		query.Places, query.Queue = []inspect.Place{place}, queue
		return query, rest, err
	}
	if l.queue == "" {
		return query, args, nil
	}
	if len(args) == 0 || args[0] == "" {
		return query, nil, usage("name the queue")
	}
	query.Queue = args[0]
	return query, args[1:], nil
}

// homeNames are the names of places that belay list takes.
var homeNames = []string{"scheduled", "retries", "dead", "completed", "queue", "quarantined", "waiting"}

// placeOf reads the name of a place and, if it is one of a queue, the name of the queue.
func placeOf(args []string) (place inspect.Place, queue string, rest []string, err error) {
	if len(args) == 0 || !slices.Contains(homeNames, args[0]) {
		return "", "", nil, usage("name the place: %s", strings.Join(homeNames, ", "))
	}
	rest = args[1:]
	switch args[0] {
	case "waiting": // at all gates
		return inspect.PlaceWaiting, "", rest, nil
	case "queue", "quarantined":
		if len(rest) == 0 || rest[0] == "" {
			return "", "", nil, usage("name the queue after %s", args[0])
		}
		queue, rest = rest[0], rest[1:]
	}
	home, _ := inspect.HomeOf(args[0], queue)
	return home.Place(), queue, rest, nil
}

// newListPlace makes the command that lists the jobs of any place.
func newListPlace(at *redisFlags) *cobra.Command {
	l := listing{command: "list", anywhere: true}
	return newList(at, l, &cobra.Command{
		Use:   "list PLACE [QUEUE]",
		Short: "List the jobs in a place",
		Long: `Lists the jobs in a place: scheduled, retries or dead; or those of a queue that wait (queue) or are quarantined
(quarantined), whose name follows; or those that wait until a limit lets them start (waiting), at one gate after the
other; or the jobs that have ended (completed), if their class is tracked: of those that ended last 10,000 are listed, each
until its state expires. The next job to run comes first, and of dead and completed jobs the one that
died or ended last. The flags choose jobs as those of the acts on them do, such as belay dead retry.`,
		Example: "  belay list dead --group\n  belay list dead --class WelcomeEmail --error-class Net::ReadTimeout\n  belay list queue mail --tag billing\n" +
			"  belay list waiting -q webhooks\n" +
			"  belay list completed --class Report --json | jq .tracked.result",
		Args: func(_ *cobra.Command, args []string) error {
			_, rest, err := l.query(args)
			if err == nil && len(rest) > 0 {
				err = usage("too many arguments: %s", strings.Join(rest, " "))
			}
			return err
		},
		ValidArgs: homeNames,
	})
}

// example completes the examples of a command: %[1]s is the command above, %[2]s the queue.
func (l listing) example(text string) string {
	return fmt.Sprintf(text, l.command, strings.ReplaceAll(l.queue, "QUEUE", "mail"))
}

// newList completes a command that lists jobs.
func newList(at *redisFlags, l listing, cmd *cobra.Command) *cobra.Command {
	var flags pageFlags
	var filter inspect.Filter
	var grouped bool
	cmd.Long += listHelp
	if cmd.Args == nil {
		cmd.Args = noWords
	}
	cmd.RunE = withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, args []string) error {
		query, _, err := l.query(args)
		if err == nil {
			err = flags.check()
		}
		if err != nil {
			return err
		}
		if query.Queue != "" && filter.Queue != "" {
			return usage("--queue: the jobs of queue %s are listed", query.Queue)
		}
		homes := inspect.HomesIn(query.Queue, query.Places...)
		if slices.Contains(query.Places, inspect.PlaceWaiting) {
			if homes, err = i.WaitersOf(context.Background(), ""); err != nil {
				return err
			}
		}
		total, err := sizeOf(context.Background(), i, homes)
		if err != nil {
			return err
		}
		if total == 0 && query.Queue != "" {
			hintQueue(cmd, i, query.Queue)
		}
		of := query.Queue
		query.Filter = filter
		query.Queue = cmp.Or(filter.Queue, of)
		if grouped {
			return listGroups(cmd, i, query, flags)
		}
		return printPage(cmd, flags, entries(i, query), total, entryHeads, entryCells)
	})
	flags.register(at.masking(cmd))
	set := cmd.Flags()
	registerFilter(set, &filter, "only jobs")
	if l.queue == "" {
		set.StringVarP(&filter.Queue, "queue", "q", "", "only jobs of this `QUEUE`")
	}
	set.BoolVar(&filter.Unreadable, "unreadable", false, "only unreadable entries")
	set.BoolVar(&grouped, "group", false, "count the jobs by class and class of error")
	at.completeFilter(cmd, l.places)
	return cmd
}

// groupsOf counts the jobs that match a query, to the end, a bounded part at a time.
func groupsOf(cmd *cobra.Command, i *inspect.Inspector, query inspect.Query) (groups inspect.Groups, err error) {
	progress := searching(cmd)
	for {
		next, err := i.Groups(context.Background(), query)
		groups.Add(next)
		if query.Cursor = next.Next; err != nil || query.Cursor == "" {
			return groups, err
		}
		progress(groups.Looked, "the "+string(query.Places[0])+" jobs")
	}
}

// listGroups prints how many jobs of each class and class of error match.
func listGroups(cmd *cobra.Command, i *inspect.Inspector, query inspect.Query, flags pageFlags) error {
	groups, err := groupsOf(cmd, i, query)
	if err != nil {
		return err
	}
	return show(cmd, groups, func(t *table) {
		listed := groups.Groups[min(flags.offset, len(groups.Groups)):]
		if flags.limit > 0 {
			listed = listed[:min(len(listed), flags.limit)]
		}
		printGroups(t, listed)
		t.row(fmt.Sprintf("%d of %s, %s", len(listed), plural(len(groups.Groups), "1 group", "%d groups"), plural(groups.Jobs, "1 job", "%d jobs")))
	})
}

func printGroups(t *table, groups []inspect.Group) {
	rows(t, []any{"CLASS", "ERROR", "JOBS", "FIRST", "LAST"}, groups, func(g inspect.Group) []any {
		return []any{cut(cmp.Or(g.Class, "(unreadable)"), 60), cut(g.ErrorClass, 60), g.Jobs, localTime(&g.First), localTime(&g.Last)}
	})
}

// sizeOf returns how many jobs are in several places.
func sizeOf(ctx context.Context, i *inspect.Inspector, homes []inspect.Home) (size int, err error) {
	for _, home := range homes {
		n, err := i.Size(ctx, home)
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, nil
}

// entries yields the jobs that wait and match a query. A signal ends the process at once: reading leaves
// nothing behind.
func entries(i *inspect.Inspector, query inspect.Query) iter.Seq2[inspect.Entry, error] {
	return func(yield func(inspect.Entry, error) bool) {
		for found, err := range i.Jobs(context.Background(), query) {
			if found.Entry == nil {
				found.Entry = &inspect.Entry{} // with an error
			}
			if found.Place == inspect.PlaceCompleted {
				found.Entry.Tracked = found.Tracked
			}
			if !yield(*found.Entry, err) {
				return
			}
		}
	}
}

var entryHeads = []any{"AT", "ID", "CLASS", "QUEUE", "FAILED", "ARGS", ""}

func entryCells(e inspect.Entry) []any {
	at := cmp.Or(e.At, e.EnqueuedAt)
	return []any{localTime(&at), e.ID, cut(e.Class, 40), cut(e.Queue, 30), cmp.Or(e.FailedRuns(), "-"), cut(string(e.Args), 40), cut(remark(e), 80)}
}

// remark returns what is wrong with a job.
func remark(e inspect.Entry) string {
	switch {
	case e.Tracked != nil:
		return outcome(e)
	case e.Problem != "":
		return e.Problem + ": " + e.Payload
	case e.Gate != "":
		gate := e.Gate
		e.Gate = ""
		return "at gate " + cut(gate, 60) + word(remark(e) != "", ": "+remark(e))
	case e.ErrorClass != "" && strings.HasPrefix(e.ErrorMessage, e.ErrorClass+": "): // how older versions stored panics
		return e.ErrorMessage
	case e.ErrorClass != "" || e.ErrorMessage != "":
		return e.ErrorClass + ": " + e.ErrorMessage
	case e.Interrupted > 0:
		return plural(e.Interrupted, "in progress in 1 crash", "in progress in %d crashes")
	}
	return ""
}

// outcome describes how a completed job ended, with the beginning of its result or its error.
func outcome(e inspect.Entry) string {
	text := e.Outcome(func(d time.Duration) string { return short(inspect.Seconds{Duration: d}) })
	t := *e.Tracked
	e.Tracked = nil
	for _, more := range []string{string(t.Result), t.NoResult, remark(e)} {
		text += word(more != "", ": "+more)
	}
	return text
}

// pastError describes the error of one failed run in a line.
func pastError(past inspect.PastError) string {
	return fmt.Sprintf("%d at %s: %s", past.Attempt, localTime(&past.At), cut(past.Class+": "+past.Message, maxShown))
}

// printEntry prints all fields of a job, one a line.
func printEntry(t *table, e inspect.Entry) {
	t.field("id", e.ID)
	t.field("in", e.In)
	t.field("problem", e.Problem)
	t.field("payload", e.Payload)
	t.field("class", e.Class)
	t.field("queue", e.Queue)
	t.field("gate", e.Gate)
	t.field("args", string(e.Args))
	t.instant("at", e.At)
	t.instant("created", e.CreatedAt)
	t.instant("enqueued", e.EnqueuedAt)
	t.field("failed runs", e.FailedRuns())
	t.instant("first failed", e.FailedAt)
	t.instant("failed again", e.RetriedAt)
	if e.Interrupted > 0 {
		t.field("crashes", strconv.Itoa(e.Interrupted))
	}
	t.field("error", e.ErrorClass)
	t.field("message", e.ErrorMessage)
	for _, frame := range e.Backtrace() {
		t.field("", frame)
	}
	for _, past := range e.Errors {
		t.field("failed run", pastError(past))
	}
	t.field("bytes", strconv.Itoa(e.Bytes))
	if d := e.Details; d != nil {
		t.field("tags", strings.Join(d.Tags, ", "))
		for _, name := range slices.Sorted(maps.Keys(d.Meta)) {
			t.field("meta", name+": "+d.Meta[name])
		}
		t.field("retry", d.Retry)
		t.field("timeout", word(d.Timeout.Duration > 0, short(d.Timeout)))
		t.instant("start by", d.StartBy)
		t.instant("deadline", d.Deadline)
		t.field("lock", d.Lock)
		t.field("periodic", d.Periodic)
		t.field("batch", d.Batch)
		t.field("callback of", d.CallbackOf)
		t.field("after", d.After)
		for _, next := range d.Next {
			t.field("next job", next.JID+" "+next.Class)
		}
		t.field("payload", string(d.Payload))
	}
	t.row()
}
