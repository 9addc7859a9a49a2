package main

import (
	"bufio"
	"io"
	"strings"
	"sync"
)

// A ledger counts what the workers report. A job is done when its handler reported the end, whatever Redis
// holds.
type ledger struct {
	mu          sync.Mutex     // guards the running jobs of each worker too
	starts      map[string]int // by jid
	done        map[string]bool
	interrupted map[string]bool // were running in a killed worker
}

const (
	lineStart = "start "
	lineEnd   = "end "
)

func newLedger() *ledger {
	return &ledger{starts: make(map[string]int), done: make(map[string]bool), interrupted: make(map[string]bool)}
}

// read reads the reports of one worker to their end.
func (l *ledger) read(reports io.Reader, running map[string]bool) {
	for lines := bufio.NewScanner(reports); lines.Scan(); {
		l.mu.Lock()
		if jid, ok := strings.CutPrefix(lines.Text(), lineStart); ok {
			l.starts[jid]++
			running[jid] = true
		} else if jid, ok := strings.CutPrefix(lines.Text(), lineEnd); ok {
			l.done[jid] = true
			delete(running, jid)
		}
		l.mu.Unlock()
	}
}

// count fills in a report.
func (l *ledger) count(r *report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Done, r.Interrupted = len(l.done), len(l.interrupted)
	for _, starts := range l.starts {
		r.Reruns += starts - 1
	}
}

// mayInterrupt reports whether a worker has running jobs, none of which was interrupted before.
func (l *ledger) mayInterrupt(running map[string]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for jid := range running {
		if l.interrupted[jid] {
			return false
		}
	}
	return len(running) > 0
}

// interrupt records that a worker was killed, and returns how many jobs were running in it.
func (l *ledger) interrupt(running map[string]bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for jid := range running {
		l.interrupted[jid] = true
	}
	return len(running)
}
