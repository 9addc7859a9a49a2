package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
)

const listHelp = `

Jobs come and go while the command reads page by page, so a long list is not a snapshot. Control characters in a job
are shown as escapes. An unreadable entry is shown with the reason.`

// pageFlags select a part of a list and the output format.
type pageFlags struct {
	class         string
	limit, offset int
}

func (f *pageFlags) register(cmd *cobra.Command) {
	set := withJSON(cmd).Flags()
	set.StringVar(&f.class, "class", "", "show only this `CLASS`")
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
	t, json := newTable(cmd.OutOrStdout()), asJSON(cmd)
	rows, skipped := 0, 0
	for item, err := range all {
		switch {
		case err != nil:
			return err
		case skipped < f.offset:
			skipped++
			continue
		case json:
			if err := printJSON(cmd.OutOrStdout(), item); err != nil {
				return err
			}
		default:
			if rows == 0 {
				t.row(heads...)
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
	_, _ = fmt.Fprintf(t, "%d of %d\n", rows, max(total, rows))
	return t.Flush()
}

// A listing is what a command lists, and the commands below it find and act on: a set, or a queue with its
// quarantined jobs.
type listing struct {
	command string          // such as "dead"
	places  []inspect.Place // where the jobs are
	queue   string          // the argument that names the queue, with a space; empty for a set
}

var ofQueue = listing{command: "queues", places: []inspect.Place{inspect.PlaceQueue, inspect.PlaceQuarantined}, queue: "QUEUE "}

func ofSet(home inspect.Home) listing {
	return listing{command: home.String(), places: []inspect.Place{home.Place()}}
}

// query returns a query of the listing's jobs, and the arguments after the queue.
func (l listing) query(args []string) (inspect.Query, []string, error) {
	query := inspect.Query{Places: l.places}
	if l.queue == "" {
		return query, args, nil
	}
	if len(args) == 0 || args[0] == "" {
		return query, nil, usage("name the queue")
	}
	query.Queue = args[0]
	return query, args[1:], nil
}

// example completes the examples of a command: %[1]s is the command above, %[2]s the queue.
func (l listing) example(text string) string {
	return fmt.Sprintf(text, l.command, strings.ReplaceAll(l.queue, "QUEUE", "mail"))
}

// newList completes a command that lists jobs.
func newList(at *redisFlags, l listing, cmd *cobra.Command) *cobra.Command {
	var flags pageFlags
	var unreadable bool
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
		total, err := sizeOf(context.Background(), i, inspect.HomesIn(query.Queue, l.places...))
		if err != nil {
			return err
		}
		if total == 0 && l.queue != "" {
			hintQueue(cmd, i, query.Queue)
		}
		query.Class, query.Unreadable = flags.class, unreadable
		return printPage(cmd, flags, entries(i, query), total, []any{"AT", "ID", "CLASS", "QUEUE", "FAILED", "ARGS", ""}, entryCells)
	})
	flags.register(cmd)
	cmd.Flags().BoolVar(&unreadable, "unreadable", false, "show only unreadable entries")
	return cmd
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
			if !yield(*found.Entry, err) {
				return
			}
		}
	}
}

func entryCells(e inspect.Entry) []any {
	at := cmp.Or(e.At, e.EnqueuedAt)
	return []any{localTime(&at), e.ID, cut(e.Class, 40), cut(e.Queue, 30), failures(e), cut(string(e.Args), 40), cut(remark(e), 80)}
}

// failures returns how many runs have failed.
func failures(e inspect.Entry) string {
	if e.RetryCount == nil {
		return "-"
	}
	return strconv.Itoa(*e.RetryCount + 1)
}

// remark returns what is wrong with a job.
func remark(e inspect.Entry) string {
	switch {
	case e.Problem != "":
		return e.Problem + ": " + e.Payload
	case e.ErrorClass != "" && strings.HasPrefix(e.ErrorMessage, e.ErrorClass+": "): // how older versions stored panics
		return e.ErrorMessage
	case e.ErrorClass != "" || e.ErrorMessage != "":
		return e.ErrorClass + ": " + e.ErrorMessage
	case e.Interrupted > 0:
		return fmt.Sprintf("in progress in %d crashes", e.Interrupted)
	}
	return ""
}

// printEntry prints all fields of a job, one a line.
func printEntry(t *table, e inspect.Entry) {
	t.field("id", e.ID)
	t.field("in", e.In)
	t.field("problem", e.Problem)
	t.field("payload", e.Payload)
	t.field("class", e.Class)
	t.field("queue", e.Queue)
	t.field("args", string(e.Args))
	t.instant("at", e.At)
	t.instant("created", e.CreatedAt)
	t.instant("enqueued", e.EnqueuedAt)
	if e.RetryCount != nil {
		t.field("failed runs", failures(e))
	}
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
	t.field("bytes", strconv.Itoa(e.Bytes))
	t.row()
}
