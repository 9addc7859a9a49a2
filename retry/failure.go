package retry

import (
	"errors"
	"fmt"
)

// ErrCompressed is the failure of a job whose args were compressed by its producer ("compressed": true). Its
// handler is not called: it would get the compressed text as its argument.
var ErrCompressed error = compressedError{}

type compressedError struct{}

func (compressedError) Error() string {
	return `compressed payloads are not supported: the args of this job are compressed ("compressed": true); ` +
		"switch compression off where it is pushed"
}

// ErrorClass returns the error_class that operators see.
func (compressedError) ErrorClass() string { return "Belay::Compressed" }

// panicClass is the error_class of a panic.
const panicClass = "panic"

// A PanicError is a handler's panic: a failure like any other, with a stack. What a handler panics with is
// never taken for something it says, not even an error made by Discard.
type PanicError struct {
	// Value is what recover returned.
	Value any
	// Stack is the text of debug.Stack, may be nil.
	Stack []byte
}

// Error says what the panic was about. It does not panic itself, whatever methods Value has.
func (e *PanicError) Error() string {
	return panicClass + ": " + textOf(func() string { return fmt.Sprint(e.Value) }, noText)
}

// Unwrap returns the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrorClass is how a panic is shown to operators.
func (e *PanicError) ErrorClass() string { return panicClass }

func (e *PanicError) stack() []byte { return e.Stack }

// ErrGoexit is the failure of a handler that ended its goroutine by runtime.Goexit (t.FailNow does) instead of
// returning. It is what errors.Is finds in a GoexitError.
var ErrGoexit = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// A GoexitError is ErrGoexit with the stack on which it happened.
type GoexitError struct {
	// Stack is the text of debug.Stack, may be nil.
	Stack []byte
}

func (e *GoexitError) Error() string { return ErrGoexit.Error() }

// Unwrap returns ErrGoexit.
func (e *GoexitError) Unwrap() error { return ErrGoexit }

// ErrorClass returns the error_class that operators see.
func (e *GoexitError) ErrorClass() string { return "runtime.Goexit" }

func (e *GoexitError) stack() []byte { return e.Stack }

// ErrUnregistered is the failure of a job whose class this worker does not know. It is what errors.Is finds
// in an UnregisteredError.
var ErrUnregistered = errors.New("no handler is registered for the class")

// An UnregisteredError is ErrUnregistered with the class. Such a job is retried with backoff like any failed
// one: while a new version is rolled out, old workers meet its classes before they are gone.
type UnregisteredError struct {
	Class string
}

func (e *UnregisteredError) Error() string { return fmt.Sprintf("%v %q", ErrUnregistered, e.Class) }

// Unwrap returns ErrUnregistered.
func (e *UnregisteredError) Unwrap() error { return ErrUnregistered }

// ErrorClass returns the error_class that operators see.
func (e *UnregisteredError) ErrorClass() string { return "UnregisteredClass" }
