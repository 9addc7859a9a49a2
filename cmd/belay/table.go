package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/logbook"
)

// A table prints rows in columns. Errors of the output are kept by the output itself; run reports them.
type table struct {
	*tabwriter.Writer
	rows int
	// shard is the first cell of each row; empty for none.
	shard string
}

func newTable(out io.Writer) *table { return &table{Writer: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)} }

// tableOf returns a table on the output of a command, whose rows begin with the shard of its turn.
func tableOf(cmd *cobra.Command) *table {
	t := newTable(cmd.OutOrStdout())
	t.shard = turnOf(cmd).shard
	return t
}

// rowsAtOnce is how many rows get the same columns: enough for a screen, few enough to keep in memory.
const rowsAtOnce = 256

// maxCell is how many bytes of a cell are printed unless it is the last one of its row. All rows are as wide as
// the widest, so one name of a megabyte would make each row as long. --json has all of it.
const maxCell = 512

// row prints a row. Names in it come from any program that can write to Redis, so all cells are escaped.
func (t *table) row(cells ...any) { t.print(t.shard, cells) }

// head prints the heads of columns.
func (t *table) head(cells ...any) { t.print(word(t.shard != "", "SHARD"), cells) }

func (t *table) print(shard string, cells []any) {
	if shard != "" {
		cells = append([]any{shard}, cells...)
	}
	texts := make([]string, len(cells))
	for n, cell := range cells {
		if texts[n] = plain(fmt.Sprint(cell)); n < len(cells)-1 && len(texts[n]) > maxCell {
			texts[n] = strings.ToValidUTF8(texts[n][:maxCell], "") + "…"
		}
	}
	_, _ = fmt.Fprintln(t, strings.TrimRight(strings.Join(texts, "\t"), "\t"))
	if t.rows++; t.rows%rowsAtOnce == 0 {
		_ = t.Flush()
	}
}

// rows prints a row for each item below heads, and nothing without an item.
func rows[T any](t *table, heads []any, items []T, cells func(T) []any) {
	for n, item := range items {
		if n == 0 {
			t.head(heads...)
		}
		t.row(cells(item)...)
	}
}

// section begins a part of the table with columns of its own.
func (t *table) section(title string) {
	_, _ = fmt.Fprintf(t, "%s%s%s\n", word(t.rows > 0, "\n"), word(t.shard != "", t.shard+"  "), title)
	t.rows++
}

// field prints a field of something, one a line; nothing if it is empty.
func (t *table) field(name, value string) {
	if value != "" {
		t.row(fmt.Sprintf("%-12s %s", name, value))
	}
}

// instant prints a field that is a time.
func (t *table) instant(name string, at time.Time) {
	if !at.IsZero() {
		t.field(name, localTime(&at))
	}
}

// clockFormat is how commands show a time: with the name of its zone. JSON has UTC.
const clockFormat = "2006-01-02 15:04:05 MST"

// localTime returns a time in the zone of this machine; "-" for none.
func localTime(at *time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.Local().Format(clockFormat)
}

// withJSON adds --json to a command. Its contract says what that prints.
func withJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("json", false, "")
	return cmd
}

// asJSON reports whether --json is given.
func asJSON(cmd *cobra.Command) bool {
	given, _ := cmd.Flags().GetBool("json")
	return given
}

// show prints a result: as one JSON object with --json, otherwise in a table.
func show(cmd *cobra.Command, result any, print func(*table)) error {
	if asJSON(cmd) {
		return printJSON(cmd, result)
	}
	t := tableOf(cmd)
	print(t)
	return t.Flush()
}

// showAll prints results: as JSON objects with --json, one a line, otherwise in a table.
func showAll[T any](cmd *cobra.Command, results []T, print func(*table)) error {
	if !asJSON(cmd) {
		return show(cmd, nil, print)
	}
	for _, result := range results {
		if err := printJSON(cmd, result); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints a line of text that may come from Redis, after the shard of the command's turn.
func printLine(cmd *cobra.Command, line string) {
	if shard := turnOf(cmd).shard; shard != "" {
		line = shard + "  " + line
	}
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), plain(line))
}

// printErr prints a line to standard error, after the shard of the command's turn.
func printErr(cmd *cobra.Command, line string) {
	if shard := turnOf(cmd).shard; shard != "" {
		line = "shard " + shard + ": " + line
	}
	cmd.PrintErrln(plain(line))
}

// printJSON prints one line of JSON in which no character can control a terminal. In a turn an object has the
// shard as its first field.
func printJSON(cmd *cobra.Command, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if shard := turnOf(cmd).shard; shard != "" && len(text) > len("{}") && text[0] == '{' {
		text = append(fmt.Appendf(nil, `{"shard":%q,`, shard), text[1:]...) // a name has only letters, digits and dashes
	}
	_, err = cmd.OutOrStdout().Write(append(logbook.EscapeJSON(text), '\n'))
	return err
}

func plain(text string) string { return logbook.Plain(text) }

func isPlain(text string) bool { return plain(text) == text }

// cut shortens a text to a number of columns.
func cut(text string, most int) string { return ansi.Truncate(plain(text), most, "…") }

// short formats a duration with as many digits as are useful.
func short(d inspect.Seconds) string {
	switch {
	case d.Duration >= time.Minute:
		return d.Round(time.Second).String()
	case d.Duration >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// word returns text if yes, otherwise nothing.
func word(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}
