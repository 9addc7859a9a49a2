package logbook

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// The formats of log lines that a program may be asked for.
const (
	FormatJSON    = "json"
	FormatConsole = "console"
)

// Lines returns a handler that writes records of this level and above to w as JSON does, or as lines for
// people. An empty format is FormatConsole if w is a terminal, and otherwise FormatJSON, because a program
// reads it. It is the one place that decides about the form of Belay's log.
func Lines(w io.Writer, format string, level slog.Level) slog.Handler {
	if format == FormatConsole || format == "" && IsTerminal(w) {
		w = console(w)
	}
	return JSON(w, level)
}

// IsTerminal reports whether w writes to a terminal.
func IsTerminal(w any) bool {
	file, ok := w.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(file.Fd())
}

// stackFields are the log fields that hold stacks.
var stackFields = []string{"stack", "goroutines"}

// console formats lines of JSON for people, with times in the local zone, which each line names. Names in
// them may come from any program that can write to Redis, so they must not add lines or control the terminal.
// Stacks follow their line, indented.
func console(out io.Writer) io.Writer {
	safe := func(value any) string { return Plain(fmt.Sprintf("%s", value)) }
	return zerolog.ConsoleWriter{
		Out: out, NoColor: !IsTerminal(out), TimeFormat: "2006-01-02 15:04:05.000 MST", TimeLocation: time.Local,
		FormatFieldValue: safe, FormatErrFieldValue: safe,
		FieldsExclude: stackFields, FormatExtra: writeStacks,
	}
}

// writeStacks writes the stacks of a line below it.
func writeStacks(fields map[string]any, out *bytes.Buffer) error {
	for _, name := range stackFields {
		stack, _ := fields[name].(string)
		for line := range strings.Lines(stack) {
			line = strings.TrimRight(line, "\n")
			place := strings.TrimLeft(line, "\t") // Plain would escape the tabs before it
			out.WriteString("\n    " + strings.Repeat("    ", len(line)-len(place)) + Plain(place))
		}
	}
	return nil
}
