package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/belayq/belay/logbook"
)

type logFlags struct{ level, format, path string }

// toTerminal reports whether the log goes to a terminal.
func (f logFlags) toTerminal(errs io.Writer) bool { return f.path == "" && logbook.IsTerminal(errs) }

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// lastWords is how long the end of the process waits for the reader of its log.
const lastWords = time.Second

// A journal is the log of a worker. It does not block: neither a job nor a heartbeat waits for the reader of
// standard error, or for a disk.
type journal struct {
	*slog.Logger
	buffer *logbook.Buffer
	file   *logFile // nil if the log goes to standard error
}

// openJournal opens the log. It writes to errs unless the flags name a file.
func openJournal(flags logFlags, errs io.Writer) (*journal, error) {
	j := &journal{}
	out := errs
	if flags.path != "" {
		j.file = &logFile{path: flags.path}
		out = j.file
		if err := j.file.reopen(); err != nil {
			return nil, err
		}
	}
	j.buffer = logbook.New(logbook.Lines(out, flags.format, logLevels[flags.level]))
	j.Logger = j.buffer.Logger()
	return j, nil
}

// reopen opens the log file again after it was renamed. Without a file it does nothing.
func (j *journal) reopen() {
	if j.file == nil {
		return
	}
	if err := j.file.reopen(); err != nil {
		j.Error("log file cannot be reopened; still writing to the old one", "error", err)
		return
	}
	j.Info("log file reopened")
}

// close writes the buffered lines, unless the reader has stopped.
func (j *journal) close() {
	if j.buffer.Flush(lastWords) && j.file != nil {
		_ = j.file.Load().Close()
	}
}

// A logFile can be reopened while it is written to. There is no mutex: a write may hang on a full disk or a
// pipe, and must not block the reopening.
type logFile struct {
	path string
	atomic.Pointer[os.File]
}

// Write appends. It tries again if the file has just been replaced.
func (l *logFile) Write(p []byte) (int, error) {
	n, err := l.Load().Write(p)
	if errors.Is(err, os.ErrClosed) {
		return l.Load().Write(p)
	}
	return n, err
}

// reopen opens the file with this name, which may be a new one. On an error the old one stays open.
func (l *logFile) reopen() error {
	// 0600: other users must not read class names and error messages.
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	if old := l.Swap(file); old != nil {
		_ = old.Close()
	}
	return nil
}
