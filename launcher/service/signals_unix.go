//go:build unix

package service

import (
	"os"
	"os/signal"
	"syscall"
)

var signalNames = map[os.Signal]string{
	syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGTSTP: "SIGTSTP", syscall.SIGUSR1: "SIGUSR1",
	syscall.SIGTTIN: "SIGTTIN", syscall.SIGUSR2: "SIGUSR2",
}

// OutliveReaders keeps the process alive, to its very end, when the reader of its standard output or error has gone: Go ends
// it at the next write otherwise. The signal is caught and not ignored, because programs would inherit that; for good,
// because the last words come after Run.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// obey does what a signal says that has to do with more than the end.
func (s Signals) obey(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP, syscall.SIGUSR1:
		s.Worker.Quiet()
	case syscall.SIGTTIN:
		s.Worker.Dump()
	case syscall.SIGUSR2:
		if s.Reopen != nil {
			go s.Reopen()
		}
	}
}
