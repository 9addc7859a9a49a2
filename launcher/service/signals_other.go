//go:build !unix

package service

import (
	"os"
	"syscall"
)

var signalNames = map[os.Signal]string{syscall.SIGTERM: "SIGTERM", os.Interrupt: "SIGINT"}

// OutliveReaders has nothing to do: on this system nobody is ended for a reader that has gone.
func OutliveReaders() {}

func (s Signals) obey(os.Signal) {}
