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

// reopenSignal reopens the log.
const reopenSignal = syscall.SIGUSR2

// OutliveReaders keeps the process alive after the reader of its standard output or error has gone; otherwise
// Go ends it at the next write. It catches SIGPIPE instead of ignoring it, because child processes would
// inherit that, and it never stops, because the last log lines come after Run.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
