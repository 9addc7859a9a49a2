package faultproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Kill returns a function for Before and After that ends a process by SIGKILL and returns when all its
// threads have ended and its sockets are closed, even if its parent has not waited for it. It fails the
// test if that does not happen.
func Kill(t testing.TB, pid int) func() {
	return func() { signal(t, pid, syscall.SIGKILL, "ZX") }
}

// Freeze returns a function for Before and After that stops a process by SIGSTOP and returns when all its
// threads have stopped. Its sockets stay open. It fails the test if that does not happen. The caller
// continues the process (SIGCONT).
func Freeze(t testing.TB, pid int) func() {
	return func() { signal(t, pid, syscall.SIGSTOP, "TZX") }
}

// signalled bounds the wait for a signal's effect, which takes microseconds unless the machine is busy.
const signalled = 10 * time.Second

// signal sends a signal and waits until every thread of the process is in one of the states.
func signal(t testing.TB, pid int, sig syscall.Signal, states string) {
	err := syscall.Kill(pid, sig)
	for deadline := time.Now().Add(signalled); err == nil && !every(pid, states); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			err = fmt.Errorf("its threads do not get into state %s", states)
		}
	}
	if err != nil {
		t.Errorf("faultproxy: send %v to process %d: %v", sig, pid, err)
	}
}

// every reports whether all threads of a process are in one of the states; a process that is gone has no
// threads. A signal takes effect later, and not in all threads at once: with the first thread alone, a
// process would count as gone while its sockets are still open.
func every(pid int, states string) bool {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		return false // without /proc the state is unknown
	}
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		return false
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name, in parentheses, may hold anything; the state is the word after it.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if rest == "" || !strings.Contains(states, rest[:1]) {
			return false
		}
	}
	return true
}
