package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belayq/belay/internal/drivertest"
)

// adoptsVariable has the test's own program become the one that its arguments name, as a process to which
// orphans are left.
const adoptsVariable = "BELAY_TEST_ADOPTS"

func becomeOther() {
	if os.Getenv(adoptsVariable) == "" {
		return
	}
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ()) // which it remains
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// ended counts the children of a process that nothing has waited for.
func ended(t *testing.T, parent int) (zombies int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			zombies++
		}
	}
	return zombies
}

// A worker that is process 1 of a container, or another one to which orphans are left, waits for them, and
// takes no exit status from its own programs.
func TestAWorkerReapsOrphansAndOnlyThem(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const jobs = 60
	for range jobs {
		h.push("Good")
		h.push("Bad", "--retry", "0")
	}
	leaves := "(true & true & sleep 0.2 &) 2>/dev/null; (setsid true &) 2>/dev/null; "
	w := h.prepareWorker(t, "-c", "10", "--exec", `Good=sh -c '`+leaves+`'`, "--exec", `Bad=sh -c '`+leaves+`exit 3'`)
	w.cmd.Args = append([]string{os.Args[0]}, w.cmd.Args...)
	w.cmd.Args[1] = binary
	w.cmd.Path, w.cmd.Stderr = os.Args[0], w.errs
	w.cmd.Env = append(w.cmd.Env, adoptsVariable+"=1")
	w.start()
	drivertest.Eventually(t, func() bool {
		return fmt.Sprint(h.do("GET", h.key("stat:processed"))) == strconv.Itoa(2*jobs)
	}, 3*soon, 20*time.Millisecond, "the log:\n%s", w.errs)
	drivertest.Eventually(t, func() bool { return ended(t, w.cmd.Process.Pid) == 0 }, soon, 20*time.Millisecond, "orphans are left")
	dead := h.payloads("ZRANGE", h.key("dead"), "0", "-1")
	require.Len(t, dead, jobs)
	for _, payload := range dead {
		require.Contains(t, payload, `"error_message":"exit status 3"`)
	}
	require.Equal(t, strconv.Itoa(jobs), fmt.Sprint(h.do("GET", h.key("stat:failed"))))
}
