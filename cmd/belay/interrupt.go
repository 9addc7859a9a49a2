package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

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

// untilSignal returns a context that INT and TERM end, with an interruption as its cause. A second signal ends
// the program at once.
func untilSignal() (ctx context.Context, stop func()) { return service.UntilSignal(interruption) }
