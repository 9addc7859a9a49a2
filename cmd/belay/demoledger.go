package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// A ledger is what the workers' files say. A job is done when a handler came to its end, whatever Redis knows of it.
type ledger struct {
	files       map[*os.File]*page
	starts      map[string]int // by jid
	done        map[string]bool
	interrupted map[string]bool // were running in a worker that was killed
}

// A page is one worker's file.
type page struct {
	offset  int64
	rest    []byte          // a line that is not complete yet
	running map[string]bool // started there and not ended
}

func newLedger() *ledger {
	return &ledger{
		files: make(map[*os.File]*page), starts: make(map[string]int), done: make(map[string]bool), interrupted: make(map[string]bool),
	}
}

// read takes in what a worker has appended to its file since the last time.
func (l *ledger) read(file *os.File) error {
	p := l.files[file]
	if p == nil {
		p = &page{running: make(map[string]bool)}
		l.files[file] = p
	}
	added, err := io.ReadAll(io.NewSectionReader(file, p.offset, math.MaxInt64-p.offset))
	if err != nil {
		return fmt.Errorf("read a worker's file: %w", err)
	}
	p.offset += int64(len(added))
	lines := bytes.Split(append(p.rest, added...), []byte("\n"))
	p.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		l.note(p, string(line))
	}
	return nil
}

const (
	lineStart = "start "
	lineEnd   = "end "
)

func (l *ledger) note(p *page, line string) {
	if jid, ok := strings.CutPrefix(line, lineStart); ok {
		l.starts[jid]++
		p.running[jid] = true
	} else if jid, ok := strings.CutPrefix(line, lineEnd); ok {
		l.done[jid] = true
		delete(p.running, jid)
	}
}

// reruns is how many runs there were beyond the first of each job.
func (l *ledger) reruns() int {
	reruns := 0
	for _, starts := range l.starts {
		reruns += starts - 1
	}
	return reruns
}

// mayHit says whether a worker has jobs running, none of which was hit before.
func (l *ledger) mayHit(file *os.File) bool {
	p := l.files[file]
	if p == nil || len(p.running) == 0 {
		return false
	}
	for jid := range p.running {
		if l.interrupted[jid] {
			return false
		}
	}
	return true
}

// hit notes that a worker is gone, and answers how many jobs were running in it.
func (l *ledger) hit(file *os.File) int {
	for jid := range l.files[file].running {
		l.interrupted[jid] = true
	}
	return len(l.files[file].running)
}
