package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A running program costs its worker no thread: where the kernel gives no more of them, Go's runtime ends the
// process.
func TestRunningProgramsKeepNoThreads(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const jobs = 80
	for range jobs {
		h.push("A")
	}
	w := h.startWorker(t, "-c", strconv.Itoa(jobs), "--exec", "A=sh -c 'echo >>out; sleep 60'")
	drivertest.Eventually(t, func() bool {
		text, _ := os.ReadFile(w.dir + "/out")
		return strings.Count(string(text), "\n") == jobs
	}, 3*soon, 20*time.Millisecond, "the log:\n%s", w.errs)
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/task")
	require.NoError(t, err)
	require.Less(t, len(threads), jobs/2)
}
