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
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
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
func TestTheDemonstrationCountsWhatWorkersReport(t *testing.T) {
	t.Parallel()
	f := &demoFleet{starts: make(map[string]int), done: make(map[string]bool), interrupted: make(map[string]bool)}
	killed, other := &demoProcess{running: make(map[string]bool)}, &demoProcess{running: make(map[string]bool)}
	read := func(from *demoProcess, lines ...string) {
		for _, line := range lines {
			f.note(from, line)
		}
	}
	require.False(t, f.mayKill(killed))
	read(killed, "start a", "start b", "end a", "start c")
	require.True(t, f.mayKill(killed))
	require.Equal(t, 1, f.report.Done)
	require.Equal(t, 2, f.interrupt(killed))
	require.False(t, f.mayKill(killed), "its jobs were interrupted before")
	require.Zero(t, f.interrupt(other), "a worker whose last job had ended")
	read(other, "start b", "end b")
	require.Empty(t, f.recovered(), "one of its jobs has not run again")
	read(other, "start c", "end c", "end b")
	require.Equal(t, []*demoProcess{killed}, f.recovered())
	require.Equal(t, 2, killed.interrupted)
	require.Empty(t, f.recovered(), "once")
	require.Equal(t, report{Done: 3, Reruns: 2, Interrupted: 2, Kills: 1}, f.report)
}

// A job that is not done is in Redis, wherever it waits there, or lost.
func TestTheDemonstrationSearchesForJobsThatAreNotDone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, url := range map[string]string{"embedded": "", "real": h.server.URL()} {
		s, err := openDemoRedis(t.Context(), &redisFlags{url: url, client: "go-redis", prefix: h.prefix, set: &pflag.FlagSet{}})
		require.NoError(t, err, name)
		defer s.close()
		require.NoError(t, s.enqueue(t.Context(), 3))
		keys := lua.NewKeys(s.at.prefix)
		move := driver.Command("LMOVE", keys.Queue(demoQueue), keys.Quarantine(demoQueue), "LEFT", "RIGHT")
		require.NoError(t, s.jobs.Driver().Do(t.Context(), move)[0].Err)
		r := report{Enqueued: 5, Done: 1}
		require.NoError(t, s.settle(&r), name)
		require.Equal(t, report{Enqueued: 5, Done: 1, Unfinished: 3, Lost: 1}, r, name)
	}
}
