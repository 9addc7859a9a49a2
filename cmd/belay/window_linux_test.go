package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belayq/belay/inspect"
)

// What is watched stays in its window: the first line would be the first to go.
func TestStatusWatchFitsItsWindow(t *testing.T) {
	t.Parallel()
	person, terminal := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 40}))
	status := inspect.Status{At: time.Unix(1_800_000_000, 0), Problems: []string{strings.Repeat("日本", 100)}}
	for n := range 100 {
		status.Queues = append(status.Queues, inspect.Queue{Name: fmt.Sprint(strings.Repeat("q", 60), n)})
	}
	require.NoError(t, newStatusView(terminal, false).show(status, true))
	text := make([]byte, 64<<10)
	n, err := person.Read(text)
	require.NoError(t, err)
	page, begins := strings.CutPrefix(string(text[:n]), "\x1b[H\x1b[2J")
	require.True(t, begins)
	lines := strings.Split(page, "\r\n")
	require.Len(t, lines, 12, page)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), 40)
	}
	require.Regexp(t, `^\.\.\. and \d+ more lines$`, lines[11])

	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 400, Col: 400}))
	require.NoError(t, newStatusView(terminal, false).show(status, true))
	n, err = person.Read(text)
	require.NoError(t, err)
	require.NotContains(t, string(text[:n]), "more lines")
}

func TestFitCountsColumns(t *testing.T) {
	t.Parallel()
	require.Equal(t, "日本", string(fit([]byte("日本語"), 5, 3)))
	require.Equal(t, "e\u0301e\u0301", string(fit([]byte("e\u0301e\u0301e\u0301"), 2, 3)))
	require.Equal(t, "a\nb", string(fit([]byte("a\nb\n"), 5, 2)))
	require.Equal(t, "... and", string(fit([]byte("a\nb\nc\n"), 7, 1)))
	require.Equal(t, "a…", string(fit([]byte("a…b"), 2, 1)))
	var empty bytes.Buffer
	_, _, ok := windowOf(&empty)
	require.False(t, ok)
}
