package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/belayq/belay/launcher/service"
)

// interruption returns the error of a command that a signal ended, with the exit status that a shell reports:
// 130 for INT, 143 for TERM.
func interruption(by os.Signal) error {
	number, _ := by.(syscall.Signal)
	return statusError{fmt.Errorf("interrupted by a signal (%v)", by), exitSignal + int(number)}
}

// interrupted reports whether an error is an interruption.
func interrupted(err error) bool {
	own, is := errors.AsType[statusError](err)
	return is && own.status > exitSignal
}

// untilSignal returns a context that INT and TERM end, with an interruption as its cause. Only the first
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
			cancel(interruption(which))
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
