//go:build !unix

package service

import (
	"os"
	"syscall"
)

var signalNames = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", os.Interrupt: "SIGINT"}

// reopenSignal is a signal that this system does not have.
const reopenSignal = syscall.Signal(-1)

// OutliveReaders does nothing: on this system a write to a reader that has gone does not end the process.
func OutliveReaders() {}
