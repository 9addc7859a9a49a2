package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/belayq/belay/launcher/service"
)

// An interruptedError reports that a signal ended a command before it was done.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string {
	return fmt.Sprintf("interrupted by a signal (%v)", e.signal)
}

// status returns the exit status that a shell reports for a signal: 130 for INT, 143 for TERM.
func (e interruptedError) status() int {
	number, _ := e.signal.(syscall.Signal)
	return exitSignal + int(number)
}

// untilSignal returns a context that INT and TERM end, with an interruptedError as its cause. Only the first
// signal is caught: a second one ends the program at once.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, which := range service.NotIgnored(os.Interrupt, syscall.SIGTERM) { // one by one: no argument would mean all signals
		signal.Notify(caught, which)
	}
	go func() {
		select {
		case which := <-caught:
			cancel(interruptedError{which})
			time.Sleep(service.SameSignal)
			signal.Stop(caught)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		cancel(nil)
	}
}

// surviveBrokenPipes turns a write to a reader that has gone into an error. Without it Go's runtime ends the
// program at once, without a summary.
func surviveBrokenPipes() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}
