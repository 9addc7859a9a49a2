package service

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/rs/zerolog"
)

// Signals carries to a worker what signals say, as Sidekiq's do: those of versions 4 and 5 as well. TERM and INT stop, a
// second one at once; TSTP and USR1 quiet; TTIN dumps; USR2 reopens the log. HUP is left alone: it ends the process, and
// under nohup it does not.
type Signals struct {
	Worker Commanded
	// Stop ends the context of the worker's Run, and with it whatever else of the program hangs on that: the first signal
	// to stop calls it, because a worker that still waits for Redis hears of nothing else.
	Stop func()
	// Reopen is called at USR2, in a goroutine of its own: it may hang on a pipe. It may be nil.
	Reopen func()
	// Log has a line for each signal.
	Log zerolog.Logger
}

// Obey obeys signals, those that this system has, until end is called.
func (s Signals) Obey() (end func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.Collect(maps.Keys(signalNames))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stopping := false
		for sig := range signals {
			s.Log.Info().Str("signal", signalNames[sig]).Msg("obeying")
			switch sig {
			case syscall.SIGTERM, os.Interrupt:
				if !stopping {
					s.Stop()
				} else {
					s.Worker.Stop()
				}
				stopping = true
			default:
				s.obey(sig)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
