package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/belayq/belay/launcher"
)

// obeySignals has the worker do what signals say, as Sidekiq's do: those of versions 4 and 5 as well. What it returns
// ends that.
//
// SIGPIPE is caught and means nothing: when the reader of standard error has gone, the next line of the log would
// otherwise end the worker. It is caught and not ignored because programs would inherit that. SIGHUP is left alone.
func obeySignals(worker *launcher.Launcher, log *journal, stop func()) (end func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGTTIN, syscall.SIGUSR2,
		syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stopping := false
		for sig := range signals {
			if sig == syscall.SIGPIPE {
				continue
			}
			log.Info().Str("signal", sig.String()).Msg("signal")
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
				if worker.Identity() != "" { // nothing runs before that
					worker.Dump()
				}
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
