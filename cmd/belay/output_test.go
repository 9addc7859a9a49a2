package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// A fullDisk takes nothing.
type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A script that redirects the output would take a status of 0 for the whole answer.
func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.kill(deadJob("A", "1"))
	h.do("SADD", h.key("queues"), "mail")
	for _, words := range []string{"dead", "dead --json", "dead find 1", "dead find 1 --json", "queues", "queues --json", "queues pause mail",
		"processes", "status", "status --json", "locks", "check", "version", "--help", "dead retry 1"} {
		var errs bytes.Buffer
		require.Equal(t, exitFailure, run(h.at(strings.Fields(words)...), strings.NewReader(""), fullDisk{}, &errs), words)
		require.Equal(t, 1, strings.Count(errs.String(), "no space left"), "%s: %s", words, errs.String())
	}
	var errs bytes.Buffer
	require.Equal(t, exitAbsent, run(h.at("dead", "retry", "1"), strings.NewReader(""), fullDisk{}, &errs), "what is worse is the status")
	require.Contains(t, errs.String(), "lost output: 0 retried")
}

// The jid of a job that was pushed is printed somewhere: it could not be found again.
func TestPushReportsTheJIDEvenIfOutputFails(t *testing.T) {
	t.Parallel()
	pushed := func(h *house) string {
		j, err := job.Parse(h.do("LINDEX", h.key("queue:default"), "0").(string))
		require.NoError(t, err)
		return j.JID()
	}
	h := newHouse(t)
	var errs bytes.Buffer
	require.Equal(t, exitFailure, run(h.at("push", "A"), strings.NewReader(""), fullDisk{}, &errs))
	require.Contains(t, errs.String(), "lost output: "+pushed(h)+"\n")

	h = newHouse(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	cmd := exec.Command(binary, h.at("push", "A")...)
	errs.Reset()
	cmd.Stdout, cmd.Stderr = writer, &errs
	_ = cmd.Run()
	_ = writer.Close()
	require.Equal(t, exitFailure, cmd.ProcessState.ExitCode(), "a broken pipe does not kill it")
	require.Contains(t, errs.String(), "lost output: "+pushed(h)+"\n")
}
