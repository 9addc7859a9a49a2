//go:build !unix

package service

import (
	"os"
	"syscall"
)

var signalNames = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", os.Interrupt: "SIGINT"}

// OutliveReaders does nothing: on this system a write to a reader that has gone does not end the process.
func OutliveReaders() {}

func (s Signals) obey(os.Signal) {}
