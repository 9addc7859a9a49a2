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

// OutliveReaders keeps the process alive after the reader of its standard output or error has gone; otherwise
// Go ends it at the next write. It catches SIGPIPE instead of ignoring it, because child processes would
// inherit that, and it never stops, because the last log lines come after Run.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// obey handles the signals that do not stop.
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
