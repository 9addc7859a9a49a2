//go:build unix

package belay

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var signalNames = map[os.Signal]string{
	syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGTSTP: "SIGTSTP", syscall.SIGUSR1: "SIGUSR1",
	syscall.SIGTTIN: "SIGTTIN", syscall.SIGUSR2: "SIGUSR2",
}

// obeySignals has the server do what signals say, as Sidekiq's do: those of versions 4 and 5 as well. What it returns ends
// that. HUP is left alone: it ends the process, and under nohup it does not.
func (p Process) obeySignals(stop func()) (end func()) {
	// Go ends a process whose standard output or error nobody reads any more, at its next write. The signal is caught and
	// not ignored, because programs would inherit that; for good, because the last words come after Run.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return p.listen(stop, slices.Collect(maps.Keys(signalNames))...)
}

// obey does what a signal says that has to do with more than the end.
func (p Process) obey(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP, syscall.SIGUSR1:
		p.Server.Quiet()
	case syscall.SIGTTIN:
		p.Server.Dump()
	case syscall.SIGUSR2:
		if p.Reopen != nil {
			go p.Reopen() // it may hang on a pipe
		}
	}
}
