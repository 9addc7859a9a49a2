package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

const listHelp = `Jobs come and go while it reads, page by page, so a long list is no snapshot. Whatever in a job could move a cursor is
shown as an escape. What cannot be read is shown with what is wrong with it.

With --json it prints one JSON object a line, whose fields stay as they are:
  id, in, class, queue, at, args, retry_count, interrupted_count, error_class, error_message, created_at, enqueued_at,
  failed_at, bytes; of what cannot be read also problem, and payload (its first bytes)
id is the jid, and what the commands below want; what cannot be read has one that begins with "unreadable-". in is retries,
scheduled, dead, queue or quarantined. at is when it runs, of the dead when they died.

Exit status: 0; 1 when Redis cannot be read; 2 for a wrong command line.`

// listFlags say which part of a list is shown.
type listFlags struct {
	class      string
	unreadable bool
	limit      int
	offset     int
	asJSON     bool
}

func (f *listFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.class, "class", "", "only those of this `CLASS`")
	set.BoolVar(&f.unreadable, "unreadable", false, "only those that nothing could run")
	set.IntVar(&f.limit, "limit", 25, "how many to show; 0 is all")
	set.IntVar(&f.offset, "offset", 0, "how many of them to pass over first")
	set.BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
}

func (f *listFlags) wants(e inspect.Entry) bool {
	return (f.class == "" || e.Class == f.class) && (!f.unreadable || e.Problem != "")
}

// list shows what lies in some homes.
func (f *listFlags) list(cmd *cobra.Command, i *inspect.Inspector, homes ...inspect.Home) error {
	if f.limit < 0 || f.offset < 0 {
		return usage("--limit and --offset are not negative")
	}
	ctx := context.Background() // nothing is left behind when a signal ends it
	shown := &entryTable{out: cmd.OutOrStdout(), asJSON: f.asJSON}
	total, passed := 0, 0
	for _, home := range homes {
		size, err := i.Size(ctx, home)
		if err != nil {
			return err
		}
		total += size
	}
	for _, home := range homes {
		if f.limit > 0 && shown.rows == f.limit {
			break
		}
		for entry, err := range i.Entries(ctx, home, 0) {
			if err != nil {
				return err
			}
			if !f.wants(entry) {
				continue
			}
			if passed < f.offset {
				passed++
				continue
			}
			if err := shown.add(entry); err != nil {
				return err
			}
			if shown.rows == f.limit {
				break
			}
		}
	}
	if total == 0 && len(homes) > 1 { // a queue, and its quarantined jobs
		hintQueue(cmd, i, homes[0].Queue())
	}
	return shown.end(total)
}

// An entryTable prints jobs, some dozens at a time so that columns fit and memory does not grow.
type entryTable struct {
	out    io.Writer
	asJSON bool
	tabs   *tabwriter.Writer
	rows   int
}

// rowsAtOnce is how many rows are laid out together.
const rowsAtOnce = 256

func (t *entryTable) add(e inspect.Entry) error {
	t.rows++
	if t.asJSON {
		return printJSON(t.out, e)
	}
	if t.tabs == nil {
		t.tabs = tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
		t.row("AT", "ID", "CLASS", "QUEUE", "FAILED", "ARGS", "")
	}
	t.row(when(e), e.ID, cut(e.Class, 40), cut(e.Queue, 30), failures(e), cut(string(e.Args), 40), cut(remark(e), 80))
	if t.rows%rowsAtOnce == 0 {
		return t.tabs.Flush()
	}
	return nil
}

func (t *entryTable) row(cells ...string) {
	for n := range cells {
		cells[n] = plain(cells[n])
	}
	_, _ = fmt.Fprintln(t.tabs, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t *entryTable) end(total int) error {
	if t.asJSON {
		return nil
	}
	if t.tabs != nil {
		if err := t.tabs.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.out, "%d of %d\n", t.rows, total)
	return err
}

// when is the instant of a job that people ask for.
func when(e inspect.Entry) string {
	at := e.At
	if at.IsZero() {
		at = e.EnqueuedAt
	}
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format(time.DateTime)
}

// failures is how many runs have failed.
func failures(e inspect.Entry) string {
	if e.RetryCount == nil {
		return "-"
	}
	return strconv.Itoa(*e.RetryCount + 1)
}

// remark is what is wrong with a job.
func remark(e inspect.Entry) string {
	switch {
	case e.Problem != "":
		return e.Problem + ": " + e.Payload
	case e.ErrorClass != "" && strings.HasPrefix(e.ErrorMessage, e.ErrorClass+": "): // as panics once were stored
		return e.ErrorMessage
	case e.ErrorClass != "" || e.ErrorMessage != "":
		return e.ErrorClass + ": " + e.ErrorMessage
	case e.Interrupted > 0:
		return fmt.Sprintf("in hand in %d crashes", e.Interrupted)
	}
	return ""
}

// cut shortens a text to so many characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	end := 0
	for range most - 1 {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end] + "…"
}

// newFind is the command that shows jobs whole. homes says where to look, given its words, and which of them are JIDs.
func newFind(at *redisFlags, parent, words string, homes func(args []string) ([]inspect.Home, []string)) *cobra.Command {
	var asJSON bool
	least := 1 + len(strings.Fields(words))
	cmd := &cobra.Command{
		Use:   "find " + words + "JID...",
		Short: "Show jobs whole",
		Long: `Shows jobs whole, with all they hold of their last error. It looks through all that is there, page by page.

With --json it prints one JSON object a line, with the fields of the list.

Exit status: 0; 1 when Redis cannot be read; 2 for a wrong command line; 4 when one of them is not there.`,
		Example: fmt.Sprintf("  belay %[1]s find %[2]s217d2cffc30f4a168b3a76d9\n  belay %[1]s find %[2]s217d2cffc30f4a168b3a76d9 --json | jq .args", parent, strings.ReplaceAll(words, "QUEUE", "mail")),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < least {
				return usage("give %sa JID, as the list shows it", strings.ToLower(strings.ReplaceAll(words, "QUEUE", "the queue and")))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, ids := homes(args)
			if ids == nil {
				ids = args
			}
			return withInspector(at, func(i *inspect.Inspector) error { return find(cmd, i, in, ids, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func find(cmd *cobra.Command, i *inspect.Inspector, homes []inspect.Home, ids []string, asJSON bool) error {
	wanted := make(map[string]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	ctx := context.Background()
	for _, home := range homes {
		for entry, err := range i.Entries(ctx, home, 0) {
			if err != nil {
				return err
			}
			if wanted[entry.ID] {
				delete(wanted, entry.ID)
				printEntry(cmd.OutOrStdout(), entry, asJSON)
			}
			if len(wanted) == 0 {
				return nil
			}
		}
	}
	var missing []string
	for _, id := range ids {
		if wanted[id] {
			missing = append(missing, id)
		}
	}
	return absent(missing)
}

// printEntry shows one job whole, a line for each thing it has.
func printEntry(out io.Writer, e inspect.Entry, asJSON bool) {
	if asJSON {
		_ = printJSON(out, e)
		return
	}
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(out, "%-12s %s\n", name, plain(value))
		}
	}
	instant := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.Local().Format(time.RFC3339)
	}
	line("id", e.ID)
	line("in", e.In)
	line("problem", e.Problem)
	line("payload", e.Payload)
	line("class", e.Class)
	line("queue", e.Queue)
	line("args", string(e.Args))
	line("at", instant(e.At))
	line("created", instant(e.CreatedAt))
	line("enqueued", instant(e.EnqueuedAt))
	if e.RetryCount != nil {
		line("failed runs", failures(e))
	}
	line("first failed", instant(e.FailedAt))
	if e.Interrupted > 0 {
		line("crashes", strconv.Itoa(e.Interrupted))
	}
	line("error", e.ErrorClass)
	line("message", e.ErrorMessage)
	for _, frame := range e.Backtrace() {
		line("", frame)
	}
	line("bytes", strconv.Itoa(e.Bytes))
	_, _ = fmt.Fprintln(out)
}
