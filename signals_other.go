//go:build !unix

package belay

import (
	"os"
	"syscall"
)

var signalNames = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", os.Interrupt: "SIGINT"}

// obeySignals has the server stop at those signals that this system has. What it returns ends that.
func (p Process) obeySignals(stop func()) (end func()) {
	return p.listen(stop, syscall.SIGTERM, os.Interrupt)
}

func (p Process) obey(os.Signal) {}
