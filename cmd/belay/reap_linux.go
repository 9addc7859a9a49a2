package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process whose parent has ended becomes a child of process 1, or of the nearest ancestor that requested it
// (PR_SET_CHILD_SUBREAPER). After its end it stays in the process table until its new parent waits for it.
// Programs leave such processes behind, and in a container the worker is process 1.

// reapLook is how soon the reaper looks again after it has found an ended child of our own, for which exec is
// waiting at that moment. Orphans may be queued behind that child.
const reapLook = 5 * time.Millisecond

// reapOrphans waits for the orphans of other processes, until done, if this process adopts orphans. All
// children of our own must be started through s, because their exit statuses belong to exec.
func (s *spawner) reapOrphans(done <-chan struct{}) {
	if !adopts() {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		for {
			var again <-chan time.Time
			if s.reap() {
				again = time.After(reapLook)
			}
			select {
			case <-ended:
			case <-again:
			case <-done:
				return
			}
		}
	}()
}

// adopts reports whether orphans become children of this process.
func adopts() bool {
	var subreaper int32
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0) //nolint:gosec // filled in by the call
	return os.Getpid() == 1 || subreaper != 0
}

// reap waits for the ended orphans, up to an ended child of our own; more reports that there is such a child.
func (s *spawner) reap() (more bool) {
	s.mu.Lock() // no start is under way, so the table has each child of our own
	defer s.mu.Unlock()
	for {
		child := endedChild()
		if child == 0 || s.children[child] > 0 {
			return child != 0
		}
		var status unix.WaitStatus
		_, _ = unix.Wait4(child, &status, unix.WNOHANG, nil)
	}
}

// endedChild returns the pid of an ended child without reaping it; 0 for none.
func endedChild() int {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0
		}
		break
	}
	// The package does not name the union's fields. si_pid comes first in it, and a union with pointers in it
	// is aligned as these.
	const header = 3 * unsafe.Sizeof(int32(0))
	const align = unsafe.Sizeof(uintptr(0))
	at := (header + align - 1) / align * align
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
}
