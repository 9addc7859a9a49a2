package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

// counting is a program that counts to 3 and leaves each number as its cursor. It notes what it does in the
// file steps, and waits in front of step 2 while there is no file go.
const counting = `Count=sh -c 'read last <"$BELAY_CURSOR_FILE"; echo "starts after $last" >>steps; i=${last:-0}
while [ $i -lt 3 ]; do
  if [ $i = 1 ]; then echo >waits; while [ ! -e go ]; do sleep 0.02; done; fi
  if [ $i = 1 -a -e fail ]; then rm fail; exit 9; fi
  i=$((i+1)); echo "step $i" >>steps; echo $i >"$BELAY_CURSOR_FILE"
done; echo "{\"steps\": $i}" >"$BELAY_RESULT_FILE"'`

func (w *worker) touch(name string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), nil, 0o600))
}

// cursor returns the cursor of a job in Redis.
func (h *house) cursor() any { return h.do("HGET", h.key("it-counts"), "c") }

func TestAProgramContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	t.Run("after_its_worker_was_killed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--ttl", "1s", "--exec", counting)
		h.push("Count", "--jid", "counts", "--track", "1h")
		w.awaitFile("waits")
		drivertest.Eventually(t, func() bool { return h.cursor() == "1" }, soon, 5*time.Millisecond, "the cursor is in Redis while the program runs")
		w.signal(syscall.SIGKILL)
		w.awaitEnd()

		second := h.prepareWorker(t, "--ttl", "1s", "--exec", counting)
		second.cmd.Stderr, second.cmd.Dir, second.dir = second.errs, w.dir, w.dir
		w.touch("go")
		second.start()
		h.awaitProcessed("1")
		require.Equal(t, "starts after \nstep 1\nstarts after 1\nstep 2\nstep 3\n", read(t, w.dir, "steps"))
		require.Nil(t, h.cursor(), "the cursor ends with the job")
		require.Contains(t, h.invoke("", "find", "counts", "--json").out, `"result":{"steps":3}`)
	})
	t.Run("after_a_failure", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.prepareWorker(t, "--exec", counting)
		w.touch("go")
		w.touch("fail")
		w.cmd.Stderr = w.errs
		w.start()
		h.push("Count", "--jid", "counts")
		drivertest.Eventually(t, func() bool { return h.do("ZCARD", h.key("retry")) == int64(1) }, soon, 5*time.Millisecond)
		require.Equal(t, "1", h.cursor())
		require.Zero(t, h.invoke("", "retries", "retry", "counts").code)
		h.awaitProcessed("2")
		require.Equal(t, "starts after \nstep 1\nstarts after 1\nstep 2\nstep 3\n", read(t, w.dir, "steps"))
		w.awaitLog("result not kept: the job is not tracked")
	})
	t.Run("after_a_stop_which_ends_it_at_once", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--shutdown-timeout", "10m", "--exec", counting)
		h.push("Count", "--jid", "counts")
		w.awaitFile("waits")
		w.signal(syscall.SIGTERM)
		require.Zero(t, w.awaitEnd())
		require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")))
		require.Equal(t, "1", h.cursor())
		require.Nil(t, h.do("GET", h.key("stat:processed")), "nothing is counted")
		require.Nil(t, h.do("GET", h.key("stat:failed")), "nothing is counted")
	})
}

func TestTheFilesOfAProgramThatAreNotKeptAreLogged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.startWorker(t, "--exec", `Text=sh -c 'echo page 7 >"$BELAY_CURSOR_FILE"; echo page 8 >"$BELAY_RESULT_FILE"'`,
		"--exec", `Long=sh -c 'head -c 70000 /dev/zero | tr "\\0" 1 | tee "$BELAY_CURSOR_FILE" >"$BELAY_RESULT_FILE"'`)
	h.push("Text", "--jid", "text", "--track", "1h")
	h.push("Long", "--jid", "long", "--track", "1h")
	h.awaitProcessed("2")
	require.Contains(t, h.invoke("", "find", "text").out, "BELAY_RESULT_FILE is not JSON (invalid character 'p' looking for beginning of value): write a JSON value")
	require.Contains(t, h.invoke("", "find", "long").out, "BELAY_RESULT_FILE has more than 65536 bytes: store the data elsewhere")
	w.awaitLog("BELAY_CURSOR_FILE is not JSON (invalid character 'p' looking for beginning of value): write a JSON value")
	w.awaitLog("BELAY_CURSOR_FILE has more than 65536 bytes")
}

// A full disk is not the job's fault.
func TestAJobWhoseFilesCannotBeMadeIsRequeued(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	r := newRunner(slog.New(logbook.JSON(&lines, slog.LevelDebug)), newSpawner(false))
	defer r.spawner.close()
	require.Error(t, r.shortage.judge(&os.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}))
	require.Contains(t, lines.String(), "make room in TMPDIR")
}

// It changes TMPDIR, so it runs alone.
func TestAWorkspaceOfAKilledWorkerIsDeletedByTheNext(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	killed, err := openWorkspace()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(killed.path, "1.cursor"), nil, 0o600))
	living, err := openWorkspace()
	require.NoError(t, err)
	require.DirExists(t, killed.path, "its worker lives")
	require.NoError(t, killed.lock.Close()) // as the kernel does it
	next, err := openWorkspace()
	require.NoError(t, err)
	require.NoDirExists(t, killed.path)
	require.DirExists(t, living.path)
	living.close()
	next.close()
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhatAProgramLeavesIsReadOnlyFromARegularFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cursor")
	text, err := readJSON("V", path, 10)
	require.NoError(t, err)
	require.Nil(t, text)
	for written, want := range map[string]string{"": "", " \n": "", " [ 1 ]\n": "[1]", "1234567890": "1234567890"} {
		require.NoError(t, os.WriteFile(path, []byte(written), 0o600))
		text, err := readJSON("V", path, 10)
		require.NoError(t, err, written)
		require.Equal(t, want, string(text))
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("1", 11)), 0o600))
	_, err = readJSON("V", path, 10)
	require.ErrorContains(t, err, "V has more than 10 bytes")
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err = readJSON("V", path, 10)
	require.ErrorContains(t, err, "V is not a regular file")
}

func TestAWorkerWithoutAWorkspaceRunsPrograms(t *testing.T) {
	t.Parallel()
	r := newRunner(slog.New(slog.DiscardHandler), newSpawner(false))
	defer r.spawner.close()
	r.environ = append(r.environ, "LEFT=1")
	j, err := job.Parse(payload("[]", ""))
	require.NoError(t, err)
	p, err := parseProgram(`A=sh -c 'test -z "$BELAY_CURSOR_FILE$BELAY_RESULT_FILE"'`)
	require.NoError(t, err)
	require.NoError(t, r.handler(p)(t.Context(), j))
}
