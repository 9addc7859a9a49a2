package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/drivertest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// demo is the demonstration as a process of its own, with a directory for temporary files of its own.
func demo(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	cmd, temp = exec.Command(binary, append([]string{"demo"}, args...)...), t.TempDir()
	cmd.Env = append(withoutRedis(os.Environ()), "TMPDIR="+temp, "REDIS_URL=redis://127.0.0.1:1/0")
	return cmd, temp
}

func TestDemo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, where := range map[string][]string{
		"embedded_go-redis": {}, "embedded_rueidis": {"--client", "rueidis"},
		"real_go-redis": h.at(), "real_rueidis": h.at("--client", "rueidis"),
	} {
		t.Run("loses_nothing_"+name, func(t *testing.T) {
			cmd, temp := demo(t, append(where, "--jobs", "300", "--kills", "2", "--json")...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			require.NoError(t, cmd.Run(), errs.String())
			var r report
			require.NoError(t, json.Unmarshal(out.Bytes(), &r), "one JSON object and nothing else: %s", out.String())
			require.Equal(t, []int{300, 300, 2, 0, 0}, []int{r.Enqueued, r.Done, r.Kills, r.Lost, r.Unfinished})
			require.GreaterOrEqual(t, r.Reruns, r.Interrupted)
			require.Positive(t, r.Interrupted)
			require.Contains(t, errs.String(), "SIGKILL to worker")
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Empty(t, h.payloads("KEYS", h.prefix+"*"), "no key is left")
			require.Empty(t, workersOf(h.prefix))
		})
	}
}

func TestDemoLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run("at_"+sig.String(), func(t *testing.T) {
			h := newHouse(t)
			cmd, temp := demo(t, h.at("--jobs", "100000")...)
			var out buffer
			cmd.Stdout = &out
			require.NoError(t, cmd.Start())
			drivertest.Eventually(t, func() bool { return strings.Contains(out.String(), " done, ") }, soon, 5*time.Millisecond)
			require.NotEmpty(t, workersOf(h.prefix))
			require.NoError(t, cmd.Process.Signal(sig))
			require.Error(t, cmd.Wait())
			drivertest.Eventually(t, func() bool { return len(workersOf(h.prefix)) == 0 }, soon, 5*time.Millisecond)
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			require.Empty(t, left)
			if sig != syscall.SIGKILL {
				require.Empty(t, h.payloads("KEYS", h.prefix+"*"))
			}
		})
	}
}

// workersOf are the processes whose command line names a prefix, but for the demonstration itself.
func workersOf(prefix string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(demoWorkerName)) && bytes.Contains(text, []byte(prefix)) {
			found = append(found, string(text))
		}
	}
	return found
}

// A job counts as done when its handler reported its end, once, however often it ran.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := newLedger()
	running, other := make(map[string]bool), make(map[string]bool)
	report := func() (r report) { l.count(&r); return r }
	require.False(t, l.mayInterrupt(running))
	l.read(iotest.OneByteReader(strings.NewReader("start a\nstart b\nend a\nstart c\n")), running)
	require.True(t, l.mayInterrupt(running))
	require.Equal(t, 1, report().Done)
	require.Equal(t, 2, l.interrupt(running))
	require.False(t, l.mayInterrupt(running), "its jobs were interrupted before")
	l.read(strings.NewReader("start b\nend b\nstart c\nend c\nend b\n"), other)
	require.Equal(t, 3, report().Done)
	require.Equal(t, 2, report().Reruns)
	require.Equal(t, 2, report().Interrupted)
}
