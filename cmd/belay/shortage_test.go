package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/retry"
)

// No process to be had says nothing about the job: it is requeued, whatever its retries, and the log says so
// once.
func TestAShortageOfProcessesIsNotAFailedRun(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRunner(slog.New(logbook.JSON(&log, slog.LevelDebug)), newSpawner(false))
	defer r.spawner.close()
	now := time.Unix(1_800_000_000, 0)
	r.shortage.now = func() time.Time { return now }
	var refusal error
	r.start = func(cmd *exec.Cmd) (<-chan syscall.WaitStatus, error) {
		if refusal != nil {
			return nil, &fs.PathError{Op: "fork/exec", Path: cmd.Path, Err: refusal}
		}
		return r.spawner.start(cmd)
	}
	j, err := job.Parse(`{"class":"A","jid":"j","args":[],"retry":0}`)
	require.NoError(t, err)
	p, err := parseProgram("A=true")
	require.NoError(t, err)
	run := func(with error) error {
		refusal = with
		return r.handler(p)(t.Context(), j)
	}
	for range 3 {
		for _, with := range shortages {
			outcome := retry.Decide(retry.Policy{}, retry.EndedRun{Job: j, Queue: "q", Err: run(with)}).Outcome
			require.Equal(t, job.ExitRequeued, outcome.Exit(), with)
		}
		require.NoError(t, run(nil), "some can be started in between")
	}
	require.Equal(t, 1, strings.Count(log.String(), "programs cannot be started"), log.String())
	require.NotContains(t, log.String(), "again\"")
	now = now.Add(calmAfter)
	require.NoError(t, run(nil))
	require.Regexp(t, fmt.Sprintf(`"requeued":%d,"time":"[^"]+","message":"programs can be started again"`, 3*len(shortages)), log.String())
	require.Error(t, run(syscall.EAGAIN))
	require.Equal(t, 2, strings.Count(log.String(), "programs cannot be started"), "another episode")

	gone := run(syscall.ENOENT)
	require.ErrorIs(t, gone, syscall.ENOENT)
	require.NotErrorAs(t, gone, new(*retry.AskError), "what will not get better is a failure")
}

// With too few descriptors for all of its programs a worker runs all the jobs, in the end, and none has
// failed.
func TestAWorkerWithTooFewDescriptorsLosesNoJob(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for range 60 {
		h.push("A", "--retry", "0")
	}
	w := h.prepareWorker(t, "-c", "60", "--exec", "A=sh -c 'sleep 0.3; echo >>out'")
	words := append([]string{"-c", `ulimit -n 60; exec "$@"`, "sh"}, w.cmd.Args...)
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	w.cmd.Path, w.cmd.Args, w.cmd.Stderr = sh, append([]string{"sh"}, words...), w.errs
	w.start()
	w.awaitLog("programs cannot be started")
	drivertest.Eventually(t, func() bool {
		return fmt.Sprint(h.do("GET", h.key("stat:processed"))) == "60"
	}, 3*soon, 50*time.Millisecond, "the log:\n%s", w.errs)
	require.Empty(t, h.payloads("ZRANGE", h.key("dead"), "0", "-1"))
	require.Zero(t, h.do("EXISTS", h.key("stat:failed"), h.key("retry")))
	require.Equal(t, 60, strings.Count(read(t, w.dir, "out"), "\n"))
	require.Equal(t, 1, strings.Count(w.errs.String(), "programs cannot be started"), w.errs)
}
