package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/logbook"
)

// logFlags say what is logged, how it looks and where it goes.
type logFlags struct{ level, format, path string }

func (f *logFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "log-level", "info", "least level that is logged: debug (a line per job), info, warn or error")
	flags.StringVar(&f.format, "log-format", "console", "json (one object a line) or console (for people)")
	flags.StringVar(&f.path, "logfile", "", "append the log to this `FILE`, made with mode 0600; USR2 opens it anew (default standard error)")
}

var logLevels = map[string]zerolog.Level{
	"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
}

// check names what is wrong with the flags.
func (f *logFlags) check() []error {
	var wrong []error
	if _, ok := logLevels[f.level]; !ok {
		wrong = append(wrong, fmt.Errorf("--log-level %q: it is debug, info, warn or error", f.level))
	}
	if f.format != "json" && f.format != "console" {
		wrong = append(wrong, fmt.Errorf("--log-format %q: it is json or console", f.format))
	}
	return wrong
}

// lastWords is how long the end of the process waits for the reader of its log.
const lastWords = time.Second

// A journal is the log of a worker, for which nobody has to wait: neither a job nor a heartbeat stops because the reader of
// standard error has, or because a disk is slow.
type journal struct {
	zerolog.Logger
	book *logbook.Book
	file *logFile // nil when the log goes to standard error
}

// openJournal opens the log. It writes to errs unless the flags name a file.
func openJournal(flags logFlags, errs io.Writer) (*journal, error) {
	j := &journal{}
	out := errs
	if flags.path != "" {
		file, err := openLogFile(flags.path)
		if err != nil {
			return nil, err
		}
		j.file, out = file, file
	}
	shown := out
	if flags.format == "console" {
		shown = console(out)
	}
	j.book = logbook.ToWriter(shown, logLevels[flags.level])
	j.Logger = j.book.Logger()
	return j, nil
}

// reopen opens the log file anew, after it was moved away. Without a file it does nothing.
func (j *journal) reopen() {
	if j.file == nil {
		return
	}
	if err := j.file.reopen(); err != nil {
		j.Error().Err(err).Msg("the log file cannot be opened anew: we go on with the old one")
		return
	}
	j.Info().Msg("log file opened anew")
}

// close writes what waits, unless its reader has stopped.
func (j *journal) close() {
	if j.book.Flush(lastWords) && j.file != nil {
		j.file.close()
	}
}

// stackFields are the log fields that hold stacks.
var stackFields = []string{"stack", "goroutines"}

// console formats lines for people. Names in them may come from any program that can write to Redis, so they
// must not add lines or control the terminal. Stacks follow their line, indented.
func console(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	colours := ok && isatty.IsTerminal(file.Fd())
	safe := func(value any) string { return plain(fmt.Sprintf("%s", value)) }
	return zerolog.ConsoleWriter{
		Out: out, NoColor: !colours, TimeFormat: "15:04:05.000", TimeLocation: time.Local,
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
			place := strings.TrimLeft(line, "\t") // plain would escape the tabs before it
			out.WriteString("\n    " + strings.Repeat("    ", len(line)-len(place)) + plain(place))
		}
	}
	return nil
}
