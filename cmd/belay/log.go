package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/diode"
	"github.com/spf13/pflag"
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

const (
	// logLines is how many lines may wait for a slow reader. What comes while so many wait pushes them out: at a few
	// hundred bytes a line it is about a megabyte, and more than a worker says in a minute unless something is very wrong.
	logLines = 4096
	// lastWords is how long the end of the process waits for the reader of its log.
	lastWords = time.Second
)

// A journal is a log that nobody has to wait for: neither a job nor a heartbeat stops because the reader of standard
// error has, or because a disk is slow. Lines that cannot be written in time are dropped and counted.
type journal struct {
	zerolog.Logger
	file  *logFile // nil when the log goes to standard error
	lines diode.Writer
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
	level := logLevels[flags.level]
	atOnce := zerolog.New(shown).Level(level).Hook(timestamps{})
	j.lines = diode.NewWriter(hidden{shown}, logLines, 0, func(missed int) {
		atOnce.Warn().Int("lines", missed).Msg("the log was not read as fast as it was written: lines were dropped")
	})
	j.Logger = zerolog.New(j.lines).Level(level).Hook(timestamps{})
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.lines.Close()
	}()
	select {
	case <-done:
		if j.file != nil {
			j.file.close()
		}
	case <-time.After(lastWords):
	}
}

// hidden keeps the diode from closing standard error.
type hidden struct{ io.Writer }

// timestamps writes the time of each line. (Zerolog's own way has seconds, unless a variable of the whole program says
// otherwise.)
type timestamps struct{}

func (timestamps) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// console shows lines for people. Names in them come from whoever can write to Redis: none may bring a line of its own
// or speak to the terminal.
func console(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	colours := ok && isatty.IsTerminal(file.Fd())
	safe := func(value any) string { return plain(fmt.Sprintf("%s", value)) }
	return zerolog.ConsoleWriter{
		Out: out, NoColor: !colours, TimeFormat: "15:04:05.000", TimeLocation: time.Local,
		FormatFieldValue: safe, FormatErrFieldValue: safe,
	}
}
