package main

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// A logFile is a file that is appended to and can be opened anew while it is written to. No lock: a write may hang on a
// full disk or a pipe, and must not take the signal for opening it anew with it.
type logFile struct {
	path string
	file atomic.Pointer[os.File]
}

func openLogFile(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Write appends. A file that was just exchanged for a new one is no error.
func (l *logFile) Write(p []byte) (int, error) {
	n, err := l.file.Load().Write(p)
	if errors.Is(err, os.ErrClosed) {
		return l.file.Load().Write(p)
	}
	return n, err
}

// reopen opens the file of that name, which may be another one by now. On an error the old one stays.
func (l *logFile) reopen() error {
	// 0600: class names and error messages are nobody else's business.
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	if old := l.file.Swap(file); old != nil {
		_ = old.Close()
	}
	return nil
}

func (l *logFile) close() { _ = l.file.Load().Close() }
