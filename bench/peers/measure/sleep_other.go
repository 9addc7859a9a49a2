//go:build !linux

package measure

import (
	"runtime"
	"time"
)

// preciseSleep waits without sleeping: elsewhere than on Linux no sleep of Go's is sure to be shorter than a
// millisecond.
func preciseSleep(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		runtime.Gosched()
	}
}
