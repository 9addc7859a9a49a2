package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

func TestPrintClasses(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rows := newTable(&out)
	ms := func(n int) inspect.Seconds { return inspect.Seconds{Duration: time.Duration(n) * time.Millisecond} }
	mean := ms(40)
	printClasses(rows, inspect.Classes{ClassCount: 3, Classes: []inspect.Class{
		{Name: "Mail\x1b", Runs: 12, Failed: 3, Mean: &mean, Run: &inspect.Durations{P50: ms(10), P95: ms(20), P99: ms(1500)}},
		{Name: "B", Runs: 1, Failed: 1},
	}, Problems: []string{"odd"}})
	require.NoError(t, rows.Flush())
	require.Regexp(t, `(?m)^Mail\\x1b +12 +3 +40ms +10ms +20ms +1.5s +- +- +-$`, out.String())
	require.Regexp(t, `(?m)^B +1 +1 +- +- `, out.String())
	require.Contains(t, out.String(), "classes: 2 of 3")
	require.Contains(t, out.String(), "problem: odd")
}
