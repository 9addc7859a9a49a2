package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/belayq/belay/internal/drivertest"
)

// ps and top show what the worker does, as with Sidekiq.
func TestTheNameOfTheProcessShowsItsState(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.startWorker(t, "-c", "3", "--exec", "A=sh -c 'echo >begun; sleep 600'", "--shutdown-timeout", "10ms")
	shows := func(want string) {
		t.Helper()
		drivertest.Eventually(t, func() bool {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", w.cmd.Process.Pid))
			return err == nil && string(name) == want+"\n"
		}, soon, 5*time.Millisecond, want)
	}
	shows("belay 0/3")
	h.push("A")
	shows("belay 1/3")
	w.signal(syscall.SIGTSTP)
	shows("belay 1/3 quiet")
}
