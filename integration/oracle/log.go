package oracle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Step is what Redis did at one instant: the writes between a MULTI and its EXEC, which is how it writes
// down what a script or a transaction did, or one write alone.
type Step struct {
	// Number counts the steps from 1.
	Number int
	// At is the second in which it was written, by Redis' clock; zero before the first annotation.
	At time.Time
	// Commands are its writes, name first.
	Commands [][]string

	base bool // it is what was there when the log began, of one database
	db   int
}

// A Log is the append-only file of a redis-server 7, read step by step.
type Log struct {
	parts     []part
	reader    *bufio.Reader
	file      *os.File
	db, steps int
	at        time.Time
	truncated string
}

type part struct {
	path string
	base bool
}

// Open opens the append-only file of a server whose directory is dir. Its base must be a file of commands
// (aof-use-rdb-preamble no).
func Open(dir string) (*Log, error) {
	found, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.manifest"))
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(path string) bool { // one that a rewrite has not finished
		return strings.HasPrefix(filepath.Base(path), "temp-")
	})
	if len(found) != 1 {
		return nil, fmt.Errorf("%d manifests of an append-only file in %s: start the server with --appendonly yes", len(found), dir)
	}
	manifest, err := os.ReadFile(found[0])
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for line := range strings.Lines(string(manifest)) {
		if err := l.add(filepath.Dir(found[0]), line); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// add takes in one line of the manifest: file NAME seq N type b|i|h, the base first and the others in order.
// History (h) is what a rewrite has replaced.
func (l *Log) add(dir, line string) error {
	words := strings.Fields(line)
	if len(words) != 6 || words[0] != "file" || words[2] != "seq" || words[4] != "type" || strings.Trim(words[3], "0123456789") != "" {
		return fmt.Errorf("unknown line of a manifest: %q", line)
	}
	p := part{path: filepath.Join(dir, words[1]), base: words[5] == "b"}
	switch {
	case words[5] == "h":
		return nil
	case p.base && strings.HasSuffix(p.path, ".rdb"):
		return fmt.Errorf("the base %s is a snapshot: start the server with --aof-use-rdb-preamble no", p.path)
	}
	l.parts = append(l.parts, p)
	return nil
}

// Close closes what is open.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Truncated says how the log ends if it ends within a step, as that of a killed server may: such a step was
// never answered. It is "" otherwise, and until Next has answered io.EOF.
func (l *Log) Truncated() string { return l.truncated }

// Next answers the next step, and io.EOF after the last.
func (l *Log) Next() (Step, error) {
	for {
		if l.file == nil {
			if len(l.parts) == 0 {
				return Step{}, io.EOF
			}
			var err error
			if l.file, err = os.Open(l.parts[0].path); err != nil {
				return Step{}, err
			}
			l.reader = bufio.NewReaderSize(l.file, 1<<20)
		}
		step, err := l.step()
		switch {
		case err == nil && len(step.Commands) > 0:
			l.steps++
			step.Number = l.steps
			return step, nil
		case err == nil:
			continue
		case errors.Is(err, io.ErrUnexpectedEOF) && len(l.parts) > 1:
			return Step{}, fmt.Errorf("%s ends within a step and is not the last part", l.parts[0].path)
		case errors.Is(err, io.ErrUnexpectedEOF):
			l.truncated = "the log ends within a step: " + describe(step.Commands, "")
		case !errors.Is(err, io.EOF):
			return Step{}, fmt.Errorf("read %s: %w", l.parts[0].path, err)
		}
		if err := l.Close(); err != nil {
			return Step{}, err
		}
		l.parts = l.parts[1:]
	}
}

// step reads one step; one without commands changed nothing but the reader's own state. The whole base is one:
// its commands are in no order.
func (l *Log) step() (Step, error) {
	if l.parts[0].base {
		return l.baseStep()
	}
	step := Step{}
	within := false
	for {
		command, err := readCommand(l.reader, &l.at)
		if err != nil {
			if within && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return step, err
		}
		step.At, step.db = l.at, l.db
		switch command[0] {
		case "SELECT":
			if l.db, err = strconv.Atoi(command[1]); err != nil {
				return step, fmt.Errorf("unknown database %q", command[1])
			}
			step.db = l.db
		case "MULTI":
			within = true
			continue
		case "EXEC":
			return step, nil
		default:
			step.Commands = append(step.Commands, command)
		}
		if !within {
			return step, nil
		}
	}
}

func (l *Log) baseStep() (Step, error) {
	step := Step{base: true, db: l.db}
	for {
		command, err := readCommand(l.reader, &l.at)
		switch {
		case errors.Is(err, io.EOF) && len(step.Commands) > 0:
			return step, nil // and the end of the file is read again
		case err != nil:
			return step, err
		case command[0] == "SELECT":
			if l.db, err = strconv.Atoi(command[1]); err != nil {
				return step, fmt.Errorf("unknown database %q", command[1])
			}
			if l.db != step.db && len(step.Commands) > 0 {
				return step, nil
			}
			step.db = l.db
		case command[0] != "MULTI" && command[0] != "EXEC":
			step.At = l.at
			step.Commands = append(step.Commands, command)
		}
	}
}
