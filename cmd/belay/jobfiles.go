package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/belayq/belay/launcher"
)

// cursorVariable and resultVariable name the variables with the paths of the files through which a program
// reads and leaves the cursor of its job, and leaves its result.
const (
	cursorVariable = "BELAY_CURSOR_FILE"
	resultVariable = "BELAY_RESULT_FILE"
)

// A workspace is the directory with the files of a worker's programs. It is locked while its worker lives, so
// that a later worker can tell which directories a killed one left behind, and so that systemd-tmpfiles, which
// respects the lock, does not delete it.
type workspace struct {
	path string
	lock *os.File
	last atomic.Int64
}

const workspacePattern = "belay-work-*"

// openWorkspace makes a workspace in TMPDIR, and deletes those that killed workers left there.
func openWorkspace() (*workspace, error) {
	sweepWorkspaces()
	for {
		path, err := os.MkdirTemp("", workspacePattern)
		if err != nil {
			return nil, err
		}
		// Another worker's sweep may see the directory before it is locked: then it is gone, and the next is
		// made.
		lock, err := lockDirectory(path)
		if err == nil {
			if _, err = os.Lstat(path); err == nil {
				return &workspace{path: path, lock: lock}, nil
			}
			_ = lock.Close()
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = os.Remove(path)
			return nil, err
		}
	}
}

func sweepWorkspaces() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), workspacePattern))
	for _, path := range left {
		if lock, err := lockDirectory(path); err == nil { // others' directories are left alone
			_ = os.RemoveAll(path)
			_ = lock.Close()
		}
	}
}

func lockDirectory(path string) (*os.File, error) {
	directory, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = directory.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return directory, nil
}

func (w *workspace) close() {
	if w != nil {
		_ = os.RemoveAll(w.path)
		_ = w.lock.Close()
	}
}

// jobFiles are the files of one run. They are empty names if the worker has no workspace.
type jobFiles struct {
	cursor, result string
	kept           string // the last cursor that is known to the launcher
	logged         bool   // a wrong cursor was logged
	problem        string // of the cursor at the last look
}

// prepare makes the cursor's file, which is empty if the job has no cursor. The program makes the result's.
func (w *workspace) prepare(ctx context.Context) (*jobFiles, error) {
	if w == nil {
		return &jobFiles{}, nil
	}
	var cursor json.RawMessage
	var text bytes.Buffer
	if found, err := launcher.Resume(ctx, &cursor); err != nil {
		return nil, err
	} else if found {
		_ = json.Compact(&text, cursor) // it was read as JSON
	}
	name := filepath.Join(w.path, strconv.FormatInt(w.last.Add(1), 10))
	files := &jobFiles{cursor: name + ".cursor", result: name + ".result", kept: text.String()}
	if text.Len() > 0 {
		text.WriteByte('\n') // a shell's read fails without it
	}
	if err := os.WriteFile(files.cursor, text.Bytes(), 0o600); err != nil {
		files.remove()
		return nil, err
	}
	return files, nil
}

// environ returns the variables of the files.
func (f *jobFiles) environ() []string {
	if f.cursor == "" {
		return nil
	}
	return []string{cursorVariable + "=" + f.cursor, resultVariable + "=" + f.result}
}

// partSuffix is the suffix of a file that a program writes beside another one and then renames to it.
const partSuffix = ".new"

func (f *jobFiles) remove() {
	for _, path := range []string{f.cursor, f.result} {
		if path != "" {
			_ = os.Remove(path)
			_ = os.Remove(path + partSuffix)
		}
	}
}

// readJSON reads a JSON text that a program left in a file. It returns nothing if there is no file or only
// white space in it.
func readJSON(variable, path string, limit int) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	// A program may have put a pipe there, whose opening would block.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	defer func() { _ = file.Close() }()
	if about, err := file.Stat(); err != nil || !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file any more: write to it, or rename a file to it", variable)
	}
	text, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", variable, err)
	case len(text) > limit:
		return nil, fmt.Errorf("%s has more than %d bytes: store the data elsewhere, and leave a reference to it", variable, limit)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("%s is not JSON (%w): write a JSON value, such as 42 or \"abc\"", variable, err)
	}
	return compact.Bytes(), nil
}
