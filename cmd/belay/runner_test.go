package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

// soon bounds what is expected at once. It decides nothing on a busy machine, and is much less than the
// sleeps of the programs that must not be waited for.
const soon = 20 * time.Second

// runShell runs a job as a shell script in a directory of its own.
func runShell(ctx context.Context, t *testing.T, log *slog.Logger, payload, script string) (dir string, err error) {
	t.Helper()
	r := newRunner(log, newSpawner(false))
	defer r.spawner.close()
	dir = t.TempDir()
	j, err := job.Parse(payload)
	require.NoError(t, err)
	p, err := parseProgram("A=sh")
	require.NoError(t, err)
	p.words = []string{"sh", "-c", "cd " + dir + "; " + script}
	return dir, r.handler(p)(ctx, j)
}

func payload(args, more string) string {
	return `{"class":"A","jid":"j1","args":` + args + more + `}`
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}

func TestRunner(t *testing.T) {
	t.Parallel()
	nop := slog.New(slog.DiscardHandler)
	t.Run("arguments_are_passed_byte_for_byte", func(t *testing.T) {
		t.Parallel()
		const args = `[1.0, 9007199254740993,"\u00e9é\/", {"b":[],"a":{}} ]`
		dir, err := runShell(t.Context(), t, nop, payload(args, ""), "cat >in")
		require.NoError(t, err)
		require.Equal(t, args, read(t, dir, "in"))
	})
	t.Run("the_environment_describes_the_job", func(t *testing.T) {
		t.Parallel()
		for more, failed := range map[string]string{"": "0", `,"retry_count":0`: "1", `,"retry_count":3`: "4", `,"retry_count":-1`: "0"} {
			dir, err := runShell(t.Context(), t, nop, payload("[]", more), `echo "$BELAY_JID $BELAY_CLASS $BELAY_RETRY_COUNT" >env`)
			require.NoError(t, err)
			require.Equal(t, "j1 A "+failed+"\n", read(t, dir, "env"), more)
		}
	})
	t.Run("the_environment_has_the_WAL_positions", func(t *testing.T) {
		t.Parallel()
		for more, want := range map[string]string{
			"": "none", `,"wal_locations":{"main":"9/0","ci":"0/1"},"dedup_wal_locations":{"main":"10/0"}`: `{"ci":"0/1","main":"10/0"}`,
		} {
			dir, err := runShell(t.Context(), t, nop, payload("[]", more), `echo "${BELAY_WAL_POSITIONS-none}" >env`)
			require.NoError(t, err)
			require.Equal(t, want+"\n", read(t, dir, "env"), more)
		}
	})
	t.Run("the_environment_names_the_batch_of_a_member_and_of_a_callback", func(t *testing.T) {
		t.Parallel()
		for more, want := range map[string]string{
			"": "none", `,"belay_batch":"import-42/calls"`: "import-42", `,"belay_batch":"outer/q","belay_batch_ended":"inner/q"`: "inner", `,"belay_batch":"a b"`: "none",
		} {
			dir, err := runShell(t.Context(), t, nop, payload("[]", more), `echo "${BELAY_BATCH-none}" >env`)
			require.NoError(t, err)
			require.Equal(t, want+"\n", read(t, dir, "env"), more)
		}
	})
	t.Run("the_environment_names_the_job_that_it_follows", func(t *testing.T) {
		t.Parallel()
		for more, want := range map[string]string{
			"": "none", `,"belay_after":"217d2cffc30f4a168b3a76d9"`: "217d2cffc30f4a168b3a76d9", `,"belay_after":7`: "none", `,"belay_after":"a\u0000b"`: "none",
		} {
			dir, err := runShell(t.Context(), t, nop, payload("[]", more), `echo "${BELAY_AFTER-none}" >env`)
			require.NoError(t, err)
			require.Equal(t, want+"\n", read(t, dir, "env"), more)
		}
	})
	t.Run("the_end_of_standard_error_is_the_message", func(t *testing.T) {
		t.Parallel()
		_, err := runShell(t.Context(), t, nop, payload("[]", ""), `printf 'it broke \377\n' >&2; exit 3`)
		require.EqualError(t, err, "exit status 3: it broke \ufffd")
		_, err = runShell(t.Context(), t, nop, payload("[]", ""), "kill -9 $$")
		require.EqualError(t, err, "signal: killed")
		_, err = runShell(t.Context(), t, nop, payload("[]", ""), `i=0; while [ $i -lt 30000 ]; do echo "é line $i"; i=$((i+1)); done >&2; exit 1`)
		require.ErrorContains(t, err, "line 29999")
		require.True(t, utf8.ValidString(err.Error()))
		require.LessOrEqual(t, len(err.Error()), tailBytes+len("exit status 1: "))
	})
	t.Run("standard_output_is_logged_at_debug_only", func(t *testing.T) {
		t.Parallel()
		var lines bytes.Buffer
		_, err := runShell(t.Context(), t, slog.New(logbook.JSON(&lines, slog.LevelInfo)), payload("[]", ""), "echo out; exit 1")
		require.EqualError(t, err, "exit status 1")
		require.Empty(t, lines.String())
		_, err = runShell(t.Context(), t, slog.New(logbook.JSON(&lines, slog.LevelDebug)), payload("[]", ""), "echo out")
		require.NoError(t, err)
		require.Contains(t, lines.String(), `"stdout":"out"`)
	})
	t.Run("a_program_need_not_read_its_input", func(t *testing.T) {
		t.Parallel()
		long := `["` + strings.Repeat("x", 1<<20) + `"]`
		_, err := runShell(t.Context(), t, nop, payload(long, ""), "exit 0")
		require.NoError(t, err)
		_, err = runShell(t.Context(), t, nop, payload(long, ""), "exec <&-; echo >&2 closed; exit 4")
		require.EqualError(t, err, "exit status 4: closed")
	})
	t.Run("a_grandchild_that_holds_the_pipes_does_not_delay_the_job", func(t *testing.T) {
		t.Parallel()
		long := `["` + strings.Repeat("x", 1<<20) + `"]`
		begun := time.Now()
		// A shell gives what runs in the background no input of ours, unless it is said so.
		dir, err := runShell(t.Context(), t, nop, payload(long, ""), "sleep 60 <&0 & echo $! >pid; echo said >&2; exit 5")
		require.EqualError(t, err, "exit status 5: said")
		require.Less(t, time.Since(begun), soon)
		require.NoError(t, syscall.Kill(pidIn(t, dir), syscall.SIGKILL), "it was left alone")
	})
	t.Run("a_cancelled_run_ends_with_its_whole_group", func(t *testing.T) {
		t.Parallel()
		cause := errors.New("the cause")
		for _, script := range []string{
			"sleep 60 & echo $! >pid; echo $! >ready; wait",                                     // ends at SIGTERM
			"trap '' TERM; sh -c 'echo $$ >pid; echo >ready; while :; do sleep 1; done' & wait", // only at SIGKILL
			"trap 'exit 0' TERM; sleep 60 & echo $! >pid; echo $! >ready; wait",                 // says that it is done
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			dir := t.TempDir()
			go func() {
				for !exists(filepath.Join(dir, "ready")) {
					time.Sleep(5 * time.Millisecond)
				}
				cancel(cause)
			}()
			_, err := runShell(ctx, t, nop, payload("[]", ""), "cd "+dir+"; "+script)
			require.ErrorIs(t, err, cause, script)
			drivertest.Eventually(t, func() bool { return dead(pidIn(t, dir)) }, soon, 5*time.Millisecond, script)
		}
	})
	t.Run("a_missing_program_is_a_failure", func(t *testing.T) {
		t.Parallel()
		r := newRunner(nop, newSpawner(false))
		defer r.spawner.close()
		j, err := job.Parse(payload("[]", ""))
		require.NoError(t, err)
		err = r.handler(program{class: "A", path: "/nowhere/a", words: []string{"a"}})(t.Context(), j)
		require.ErrorContains(t, err, "run a: ")
	})
}

func TestProgramsDoNotInheritTheURLOfRedis(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"A=1", "REDIS_URLS=x"},
		withoutRedis([]string{"A=1", "BELAY_BATCH=b", "BELAY_AFTER=j", "REDIS_URL=redis://:secret@h", "BELAY_REDIS_URL=redis://:secret@h", "REDIS_URLS=x"}))
}

func pidIn(t *testing.T, dir string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir, "pid")))
	require.NoError(t, err)
	return pid
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// dead says whether a process has ended. A zombie that was not waited for yet has.
func dead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
