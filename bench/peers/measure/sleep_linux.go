package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// preciseSleep sleeps in the kernel, in this goroutine's thread: it wakes within the thread's timer slack, 50
// µs.
func preciseSleep(d time.Duration) {
	rest := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&rest, &rest) == unix.EINTR { // Go's preemption signals interrupt it, and it says what is left
	}
}
