package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stage makes a folder in which a script stands for the tests of ./integration.
func stage(t *testing.T, script string) *torture {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("integration", 0o700))
	program := filepath.Join(dir, "tests")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700))
	return &torture{plan: newPlan(3, 18*time.Second, 0), dir: dir, program: program}
}

// report is what a test does that passed.
const report = `echo '{"plan":"abc","jobs":{"plain":3,"long":2},"faults":7,"kills":4}' >> "$BELAY_CHAOS_OUT"
echo 'oracle: 1,234 steps, 5 jobs, 0 violations'
echo '--- PASS: TestChaos (1.00s)'
`

func TestLinesAreWrittenWhereTheyWereAskedFor(t *testing.T) {
	tort := stage(t, report)
	var err error
	tort.out, err = lineFile("rounds.jsonl")
	require.NoError(t, err)
	require.NoError(t, tort.perform(t.Context()))
	require.FileExists(t, "rounds.jsonl")
	require.NoFileExists(t, "integration/rounds.jsonl")
	require.Equal(t, 5, tort.jobs)
	require.Equal(t, 7, tort.faults)
	require.Equal(t, 1234, tort.steps)
	require.True(t, tort.tell())
}

func TestAFileThatCannotBeWrittenIsReportedAtOnce(t *testing.T) {
	_, err := lineFile(filepath.Join(t.TempDir(), "missing", "rounds.jsonl"))
	require.ErrorContains(t, err, "-out")
}

// What passed is not unlawful because its line is missing; but it is not counted, and so it is no success
// either.
func TestAPassedRoundWithoutALineIsNotCalledUnlawful(t *testing.T) {
	tort := stage(t, "echo '--- PASS: TestChaos (1.00s)'\n")
	require.NoError(t, tort.perform(t.Context()))
	require.False(t, tort.failed)
	require.Equal(t, 1, tort.mute)
	require.False(t, tort.tell())
}

func TestAFailedRoundIsUnlawful(t *testing.T) {
	for _, script := range []string{"exit 1\n", report + "exit 1\n"} {
		tort := stage(t, script)
		require.NoError(t, tort.perform(t.Context()))
		require.True(t, tort.failed)
		require.False(t, tort.tell())
	}
}
