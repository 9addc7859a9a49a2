package service

import (
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Signals carries to a worker what signals say, as Sidekiq's do: those of versions 4 and 5 as well. TERM and INT stop, a
// second one at once; TSTP and USR1 quiet; TTIN dumps; USR2 reopens the log. HUP is left alone: it ends the process, and
// under nohup it does not. Who ends a program may tell both the process and its group, as GNU timeout does: the same signal
// again within SameSignal of the first to stop is no second one.
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

// Heard are those of signals that this program was not started to ignore, as nohup has it of HUP, and a shell of INT in what it
// starts in the background: signal.Notify would bring such a one back.
func Heard(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

// SameSignal is for how long a signal that comes again is the first one: GNU timeout tells a process, and then its group. It is many
// times what that takes, and less than a person takes for two.
const SameSignal = 200 * time.Millisecond

// asked is by which signal a stop was first asked for, and when.
type asked struct {
	by os.Signal
	at time.Time
}

// same says whether a signal means what was asked before, and nothing more.
func (a asked) same(sig os.Signal, now time.Time) bool {
	return sig == a.by && now.Sub(a.at) < SameSignal
}

// Obey obeys signals, those that this system has, until end is called.
func (s Signals) Obey() (end func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.Collect(maps.Keys(signalNames))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var first asked
		for sig := range signals {
			if first.same(sig, time.Now()) {
				s.Log.Info().Str("signal", signalNames[sig]).Msg("the same signal again at once: taken for the first")
				continue
			}
			s.Log.Info().Str("signal", signalNames[sig]).Msg("obeying")
			switch sig {
			case syscall.SIGTERM, os.Interrupt:
				if first.by == nil {
					first = asked{by: sig, at: time.Now()}
					s.Stop()
				} else {
					s.Worker.Stop()
				}
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
