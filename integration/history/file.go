package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the clock of all histories.
func Now() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic(fmt.Sprintf("history: CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(at.Nano())
}

// A Writer appends the events of one process. Its methods may be called from any goroutine.
type Writer struct {
	file *os.File
	proc string
}

// Create opens the history of a process in a run's folder; the name is the process', unique in the run.
func Create(dir, proc string) (*Writer, error) {
	file, err := os.OpenFile(filepath.Join(dir, proc+".history"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", proc, err)
	}
	return &Writer{file: file, proc: proc}, nil
}

// Append records an event in one write, with the time. Proc is the writer's own process unless it is set. A
// history that cannot be written makes the run worthless, so that is a panic.
func (w *Writer) Append(e Event) {
	e.At = Now()
	if e.Proc == "" && e.Fault == "" {
		e.Proc = w.proc
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("history of %s: %v", w.proc, err))
	}
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Read answers the events of all histories in a folder, in the order in which they happened. The last line of a
// file may have been cut short by its process' death.
func Read(dir string) ([]Event, error) { return ReadOf(dir, "*") }

// ReadOf is Read of the processes whose names match a pattern of filepath.Match.
func ReadOf(dir, procs string) ([]Event, error) {
	paths, err := filepath.Glob(filepath.Join(dir, procs+".history"))
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lines := bytes.Split(text, []byte("\n"))
		for n, line := range lines[:len(lines)-1] {
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", path, n+1, err)
			}
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}
