package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belayq/belay/launcher"
)

// outliveReaders keeps the process alive, to its very end, when the reader of its standard output or error has gone: Go
// ends it at the next write otherwise. The signal is caught and not ignored, because programs would inherit that.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// obeySignals has the worker do what signals say, as Sidekiq's do: those of versions 4 and 5 as well. What it returns
// ends that. SIGHUP is left alone.
func obeySignals(worker *launcher.Launcher, log *journal, stop func()) (end func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGTTIN, syscall.SIGUSR2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stopping := false
		for sig := range signals {
			number, _ := sig.(syscall.Signal)
			log.Info().Str("signal", unix.SignalName(number)).Msg("obeying")
			switch sig {
			case syscall.SIGTERM, syscall.SIGINT:
				// The first one ends the context, because a worker that still waits for Redis hears of nothing else.
				if !stopping {
					stop()
				} else {
					worker.Stop()
				}
				stopping = true
			case syscall.SIGTSTP, syscall.SIGUSR1:
				worker.Quiet()
			case syscall.SIGTTIN:
				worker.Dump()
			case syscall.SIGUSR2:
				go log.reopen() // it may hang on a pipe
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
