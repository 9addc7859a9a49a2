package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A ledger is the file that hands append to: what truly ran, whatever Redis says.
type ledger struct {
	t    *testing.T
	path string
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	return &ledger{t: t, path: filepath.Join(t.TempDir(), "ledger")}
}

// exec is the value of --exec that runs the jobs of class with a hand. flags are the hand's.
func (l *ledger) exec(class string, flags ...string) string {
	command := class + "=" + handPath
	for _, flag := range flags {
		command += " '" + flag + "'"
	}
	return command + " " + l.path
}

// A leave is what hands with -until and its path wait for: their jobs last until the test gives it, on however slow
// a machine. A job of a fixed length may be over before the test has done what must happen while it runs.
type leave struct {
	t    *testing.T
	path string
}

func newLeave(t *testing.T) *leave {
	t.Helper()
	return &leave{t: t, path: filepath.Join(t.TempDir(), "leave")}
}

// give lets all jobs end, those that are yet to start too.
func (l *leave) give() {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(l.path, nil, 0o600))
}

// giveTo lets one job end.
func (l *leave) giveTo(jid string) {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(l.path+"."+jid, nil, 0o600))
}

// A mark is one line: a hand has started, or ended.
type mark struct {
	What, JID, Class, Queue string
	RetryCount              string `json:"retry_count"`
	Worker                  int    // process id of the worker
	PID                     int    // and of the hand
	Run                     string // which run it is, of a program that runs several at once
	At                      time.Time
	Input                   []byte // what it read on standard input
}

func (m *mark) UnmarshalJSON(line []byte) error {
	type plain mark
	var read struct {
		*plain
		At int64
	}
	read.plain = (*plain)(m)
	err := json.Unmarshal(line, &read)
	m.At = time.Unix(0, read.At)
	return err
}

// marks are all lines, in the order in which they were appended. A line half written is none yet.
func (l *ledger) marks() []mark {
	l.t.Helper()
	text, err := os.ReadFile(l.path)
	if !os.IsNotExist(err) {
		require.NoError(l.t, err)
	}
	lines := bytes.Split(text, []byte("\n"))
	var marks []mark
	for _, line := range lines[:max(len(lines)-1, 0)] {
		var m mark
		require.NoError(l.t, json.Unmarshal(line, &m), "a line of the ledger: %s", line)
		marks = append(marks, m)
	}
	return marks
}

func (l *ledger) of(what, jid string) []mark {
	l.t.Helper()
	var marks []mark
	for _, m := range l.marks() {
		if m.What == what && (jid == "" || m.JID == jid) {
			marks = append(marks, m)
		}
	}
	return marks
}

// starts are the starts of a job; of all jobs for "".
func (l *ledger) starts(jid string) []mark { l.t.Helper(); return l.of("start", jid) }

// ends are the ends of a job; of all jobs for "".
func (l *ledger) ends(jid string) []mark { l.t.Helper(); return l.of("end", jid) }

// awaitStart waits until a job has started at least n times, and answers the nth start.
func (l *ledger) awaitStart(jid string, n int) mark {
	l.t.Helper()
	return l.await("start", jid, n)
}

// awaitEnd waits until a job has ended, and answers its first end.
func (l *ledger) awaitEnd(jid string) mark {
	l.t.Helper()
	return l.await("end", jid, 1)
}

func (l *ledger) await(what, jid string, n int) mark {
	l.t.Helper()
	var found []mark
	eventually(l.t, "the "+what+" of "+jid, func() bool {
		found = l.of(what, jid)
		return len(found) >= n
	})
	return found[n-1]
}
