package service

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// Signals handles Sidekiq's signals, those of versions 4 and 5 too. TERM and INT stop, a second one at once;
// TSTP and USR1 quiet; TTIN dumps; USR2 reopens the log. HUP keeps its default: it ends the process, and is
// ignored under nohup. GNU timeout signals a process and then its group, so the same signal again within
// sameSignal does not count as a second one.
type Signals struct {
	Worker *launcher.Launcher
	// Stop cancels the context of the worker's Run. The first TERM or INT calls it, because a worker that
	// still waits for Redis reacts to nothing else.
	Stop func()
	// Reopen is called at USR2, in a goroutine of its own: it may block on a pipe. It may be nil.
	Reopen func()
	// Log has a line for each signal.
	Log *slog.Logger
}

// NotIgnored returns the signals that were not ignored when the program started. nohup ignores HUP, and a
// shell ignores INT for background programs; signal.Notify would enable them again.
func NotIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

// UntilSignal returns a context that INT and TERM end, with the cause of the signal. Only the first signal is
// caught: a second one ends the program at once, unless it only repeats the first (see sameSignal).
func UntilSignal(cause func(os.Signal) error) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, which := range NotIgnored(os.Interrupt, syscall.SIGTERM) { // one by one: no argument would mean all signals
		signal.Notify(caught, which)
	}
	go func() {
		select {
		case which := <-caught:
			cancel(cause(which))
			time.Sleep(sameSignal)
			signal.Stop(caught)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		cancel(nil)
	}
}

// sameSignal is how long a repeated signal counts as the first one. It is many times what GNU timeout needs
// for its two signals, and less than a person needs to send two.
const sameSignal = 200 * time.Millisecond

// A stopSignal is the signal that first asked for a stop, and its time.
type stopSignal struct {
	by os.Signal
	at time.Time
}

// same reports whether a signal only repeats the first one.
func (s stopSignal) same(sig os.Signal, now time.Time) bool {
	return sig == s.by && now.Sub(s.at) < sameSignal
}

// Obey obeys signals until end is called.
func (s Signals) Obey() (end func()) {
	s.Log = logbook.OrDiscard(s.Log)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.Collect(maps.Keys(signalNames))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var first stopSignal
		for sig := range signals {
			if first.same(sig, time.Now()) {
				s.Log.Info("repeated signal ignored", "signal", signalNames[sig])
				continue
			}
			s.Log.Info("signal received", "signal", signalNames[sig])
			switch stops := sig == syscall.SIGTERM || sig == os.Interrupt; {
			case stops && first.by == nil:
				first = stopSignal{by: sig, at: time.Now()}
				s.Stop()
			case sig == reopenSignal:
				if s.Reopen != nil {
					go s.Reopen()
				}
			default:
				s.Worker.Obey(strings.TrimPrefix(signalNames[sig], "SIG"))
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
