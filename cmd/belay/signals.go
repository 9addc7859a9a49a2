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

// An interruptedError says that a signal ended a command before it was done.
type interruptedError struct{ signal os.Signal }

func (e interruptedError) Error() string {
	return fmt.Sprintf("interrupted by a signal (%v)", e.signal)
}

// status is what a shell makes of a program that a signal has ended: 130 of INT, 143 of TERM.
func (e interruptedError) status() int {
	number, _ := e.signal.(syscall.Signal)
	return exitSignal + int(number)
}

// untilSignal answers a context that INT and TERM end, with an interruptedError as its cause. The first one is caught; what
// follows it ends the program, so that whoever is in a hurry need not wait for what the command still has to do.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	for _, which := range service.Heard(os.Interrupt, syscall.SIGTERM) { // one by one, since none would mean all to Notify
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

// surviveBrokenPipes makes an error of what is written to a reader that has gone. Without it Go's runtime ends the program
// where it stands, and nobody would be told how far it had come.
func surviveBrokenPipes() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}
