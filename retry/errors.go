package retry

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// An error of a run for which the handler returned none: the error_class that operators see, and the text.
type classed struct{ class, text string }

func (e *classed) Error() string      { return e.text }
func (e *classed) ErrorClass() string { return e.class }

var (
	// ErrGoexit is the failure of a handler that ended its goroutine by runtime.Goexit (t.FailNow does)
	// instead of returning.
	ErrGoexit error = &classed{"runtime.Goexit", "the handler ended its goroutine (runtime.Goexit) instead of returning"}
	// ErrUnregistered is the failure of a job whose class has no handler in this worker. It is retried with
	// backoff like any failed job, because old workers take jobs of new classes during a rollout.
	ErrUnregistered error = &classed{"UnregisteredClass", "no handler is registered for the class"}
	// ErrCompressed is the failure of a job whose compressed args ("compressed": true) cannot be read. Its
	// handler is not called: it would get the compressed text as its argument.
	ErrCompressed error = &classed{"Belay::Compressed", `the args of this job are compressed ("compressed": true) and cannot be read`}
)

// Compressed returns ErrCompressed with the reason.
func Compressed(why error) error {
	return fmt.Errorf("%w: %v; switch compression off where it is pushed", ErrCompressed, why) //nolint:errorlint // one class
}

// Unregistered returns ErrUnregistered with the name of the class.
func Unregistered(class string) error { return fmt.Errorf("%w %q", ErrUnregistered, class) }

// panicClass is the error_class of a panic.
const panicClass = "panic"

// A PanicError is the error of a handler that panicked, with its stack. The run counts as failed, even if
// the handler panicked with an AskError.
type PanicError struct {
	// Value is what recover returned.
	Value any
	// Stack is the result of debug.Stack; it may be nil.
	Stack []byte
}

// ErrGone is the value of the PanicError of a call that ended its goroutine.
var ErrGone = errors.New("it ended its goroutine (runtime.Goexit) instead of returning")

// Contain makes a call of the program's code in a goroutine of its own and waits for it, so that the goroutine
// of the caller goes on whatever the call does: a panic, and a runtime.Goexit (t.FailNow calls it), are its
// PanicError. It returns nil if the call has returned.
func Contain(call func()) *PanicError {
	ended := make(chan *PanicError)
	go func() {
		problem := &PanicError{Value: ErrGone}
		defer func() {
			if value := recover(); value != nil {
				problem = &PanicError{Value: value, Stack: debug.Stack()}
			}
			ended <- problem
		}()
		call()
		problem = nil
	}()
	return <-ended
}

// Error returns the text of Value. It does not panic, even if a method of Value does.
func (e *PanicError) Error() string {
	return panicClass + ": " + textOf(func() string { return fmt.Sprint(e.Value) }, noText)
}

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrorClass returns the error_class that operators see.
func (e *PanicError) ErrorClass() string { return panicClass }
