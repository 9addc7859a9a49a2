package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// failed is the payload of a job that has failed with err.
func failed(t require.TestingT, p retry.Policy, raw string, err error) (*job.Job, retry.Verdict) {
	v := retry.Decide(p, retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: err, Now: now})
	return parse(t, v.Outcome.Payload()), v
}

func text(t require.TestingT, j *job.Job, name string) string {
	s, ok := j.Text(name)
	require.True(t, ok, name)
	return s
}

type ownClass struct{ class string }

func (ownClass) Error() string        { return "own" }
func (e ownClass) ErrorClass() string { return e.class }

type badStringer struct{}

func (badStringer) String() string { panic(badStringer{}) }

func TestErrorClass(t *testing.T) {
	t.Parallel()
	_, statErr := fs.Stat(noFiles{}, "x")
	for want, err := range map[string]error{
		"error":                  errors.Join(errors.New("a"), fmt.Errorf("b: %w", errBoom)),
		"fs.PathError":           fmt.Errorf("open: %w", retry.In(0, statErr)),
		"retry_test.ringError":   errors.Join(errBoom, &ringError{}),
		"exit status":            fmt.Errorf("a: %w", ownClass{"exit status"}),
		"retry_test.ownClass":    ownClass{""},
		"panic":                  retry.Kill(&retry.PanicError{Value: &ringError{}}),
		strings.Repeat("é", 255): ownClass{strings.Repeat("é", 300)},
	} {
		j, _ := failed(t, retry.Policy{}, payload(""), err)
		require.Equal(t, want, text(t, j, "error_class"))
	}
}

// noFiles is a file system without files.
type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func TestErrorMessage(t *testing.T) {
	t.Parallel()
	t.Run("is_at_most_ten_thousand_characters_not_bytes", func(t *testing.T) {
		t.Parallel()
		j, _ := failed(t, retry.Policy{}, payload(""), errors.New(strings.Repeat("日", 10_001)))
		require.Equal(t, strings.Repeat("日", 10_000), text(t, j, "error_message"))
	})
	t.Run("is_whole_when_it_is_just_as_long", func(t *testing.T) {
		t.Parallel()
		j, _ := failed(t, retry.Policy{}, payload(""), errors.New(strings.Repeat("日", 10_000)))
		require.Equal(t, 10_000, utf8.RuneCountInString(text(t, j, "error_message")))
	})
	t.Run("is_valid_UTF_8_whatever_the_error_says", func(t *testing.T) {
		t.Parallel()
		j, _ := failed(t, retry.Policy{}, payload(""), errors.New("a\xff\x00\x1b[31m\n"))
		require.Equal(t, "a\ufffd\x00\x1b[31m\n", text(t, j, "error_message"))
		require.NotContains(t, j.Raw(), "\n")
	})
	t.Run("of_ten_megabytes_is_cut", func(t *testing.T) {
		t.Parallel()
		j, v := failed(t, retry.Policy{}, payload(""), errors.New(strings.Repeat("\x00", 10<<20)))
		require.Equal(t, job.ExitRetry, v.Outcome.Exit())
		require.Less(t, len(j.Raw()), 61_000)
	})
}

// Whatever an error's methods do, asking what it is ends, and panics in no goroutine.
func TestIsAsksAnyChain(t *testing.T) {
	t.Parallel()
	require.True(t, retry.Is(fmt.Errorf("a: %w", errors.Join(errBoom, context.DeadlineExceeded)), context.DeadlineExceeded))
	require.False(t, retry.Is(errBoom, context.DeadlineExceeded))
	require.False(t, retry.Is(nil, context.DeadlineExceeded))
	require.NotPanics(t, func() { require.False(t, retry.Is((*retry.PanicError)(nil), context.DeadlineExceeded)) })
	require.False(t, retry.Is(&ringError{}, context.DeadlineExceeded), "a chain without an end")
	dial := &net.Dialer{}
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	_, err := dial.DialContext(ctx, "tcp", "127.0.0.1:1")
	require.True(t, retry.Is(err, context.DeadlineExceeded), "one that says so by a method: %v", err)
}

func TestPanicError(t *testing.T) {
	t.Parallel()
	require.Equal(t, "panic: 7", (&retry.PanicError{Value: 7}).Error())
	require.Equal(t, "panic: boom", (&retry.PanicError{Value: errBoom}).Error())
	require.ErrorIs(t, &retry.PanicError{Value: errBoom}, errBoom)
	require.NoError(t, errors.Unwrap(&retry.PanicError{Value: 7}))
	for _, value := range []any{&badError{}, badStringer{}, (*badError)(nil), nil} {
		require.NotPanics(t, func() { require.Contains(t, (&retry.PanicError{Value: value}).Error(), "panic: ") })
	}
	require.NotPanics(t, func() { failed(t, retry.Policy{}, payload(""), (*retry.PanicError)(nil)) })
	require.ErrorIs(t, retry.Unregistered("C"), retry.ErrUnregistered)
}

func TestAskError(t *testing.T) {
	t.Parallel()
	for _, err := range []error{retry.Discard(errBoom), retry.Kill(errBoom), retry.In(1, errBoom)} {
		wrapped := fmt.Errorf("step 2: %w", err)
		var ask *retry.AskError
		require.ErrorAs(t, wrapped, &ask)
		require.ErrorIs(t, wrapped, errBoom)
		require.EqualError(t, wrapped, "step 2: boom")
	}
	for _, err := range []error{retry.Discard(nil), retry.Kill(nil), retry.In(-1, nil), retry.Snooze(-1), (*retry.AskError)(nil), &retry.AskError{}} {
		require.NotEmpty(t, err.Error())
		require.NoError(t, errors.Unwrap(err))
	}
	require.EqualError(t, retry.Snooze(-1), "snoozed for 0s")
}

// handler is where the panic below comes from.
func handler() { panic("oh") }

// panicked is the failure that a worker makes of a handler's panic.
func panicked(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &retry.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// A frame and a trace are what pkg/errors has: types of a library's own.
type (
	frame uintptr
	trace []frame

	tracedError struct {
		text  string
		trace trace
		cause error
	}
	callersError   []uintptr
	framesError    []uintptr
	plainError     []uintptr
	panickingTrace struct{ trace trace }
	otherTrace     struct{}
)

func (e *tracedError) Error() string     { return e.text }
func (e *tracedError) Unwrap() error     { return e.cause }
func (e *tracedError) StackTrace() trace { return e.trace }

func (callersError) Error() string           { return "c" }
func (e callersError) Callers() []uintptr    { return e }
func (framesError) Error() string            { return "f" }
func (e framesError) StackFrames() []uintptr { return e }
func (plainError) Error() string             { return "p" }
func (e plainError) StackTrace() []uintptr   { return e }
func (e *panickingTrace) Error() string      { return "t" }
func (e *panickingTrace) StackTrace() trace  { return e.trace }
func (otherTrace) Error() string             { return "o" }
func (otherTrace) StackTrace() string        { return "at some place" }

func (t trace) pcs() (pcs []uintptr) {
	for _, f := range t {
		pcs = append(pcs, uintptr(f))
	}
	return pcs
}

// libraryError is where an error begins whose library records the stack.
//
//go:noinline
func libraryError() (found trace) {
	pcs := make([]uintptr, 32)
	for _, pc := range pcs[:runtime.Callers(1, pcs)] {
		found = append(found, frame(pc))
	}
	return found
}

//go:noinline
func outerTrace() trace { return libraryError()[1:] }

func TestErrorBacktrace(t *testing.T) {
	t.Parallel()
	lines := func(t *testing.T, fields string, err error) []string {
		j, _ := failed(t, retry.Policy{}, payload(fields), err)
		packed, ok := j.Text("error_backtrace")
		if !ok {
			return nil
		}
		got, err := job.DecodeBacktrace(packed)
		require.NoError(t, err)
		return got
	}
	t.Run("begins_where_the_handler_panicked", func(t *testing.T) {
		t.Parallel()
		got := lines(t, `"backtrace":true`, panicked(handler))
		require.Greater(t, len(got), 2)
		require.Regexp(t, `errortext_test\.go:\d+:in github.com/belayq/belay/retry_test\.handler$`, got[0])
		require.Regexp(t, `errortext_test\.go:\d+:in github.com/belayq/belay/retry_test\.panicked$`, got[1])
	})
	t.Run("has_as_many_lines_as_the_job_asks_for", func(t *testing.T) {
		t.Parallel()
		require.Len(t, lines(t, `"backtrace":2`, retry.Kill(panicked(handler))), 2)
	})
	t.Run("is_not_there_unless_asked_for", func(t *testing.T) {
		t.Parallel()
		for _, fields := range []string{``, `"backtrace":false`, `"backtrace":0`, `"backtrace":false,"error_backtrace":"eJw"`} {
			require.Nil(t, lines(t, fields, panicked(handler)), fields)
		}
	})
	t.Run("is_that_of_an_error_which_carries_one", func(t *testing.T) {
		t.Parallel()
		born := libraryError()
		for name, err := range map[string]error{
			"as pkg/errors has it":   &tracedError{"x", born, nil},
			"wrapped":                fmt.Errorf("a: %w", errors.Join(&tracedError{"x", born, nil})),
			"where it began":         &tracedError{"outer", outerTrace(), &tracedError{"x", born, nil}},
			"killed":                 retry.Kill(&tracedError{"x", born, nil}),
			"as go-errors has it":    callersError(born.pcs()),
			"as eris has it":         framesError(born.pcs()),
			"as plain numbers":       plainError(born.pcs()),
			"behind one that panics": fmt.Errorf("%w, %w", (*panickingTrace)(nil), callersError(born.pcs())),
		} {
			got := lines(t, `"backtrace":true`, err)
			require.NotEmpty(t, got, name)
			require.Regexp(t, `errortext_test\.go:\d+:in github.com/belayq/belay/retry_test\.libraryError$`, got[0], name)
			require.NotContains(t, strings.Join(got, "\n"), "goexit", name)
			require.Len(t, lines(t, `"backtrace":1`, err), 1)
			require.Nil(t, lines(t, ``, err))
		}
	})
	t.Run("is_a_panics_own_before_that_of_its_value", func(t *testing.T) {
		t.Parallel()
		got := lines(t, `"backtrace":true`, panicked(func() { panic(&tracedError{"x", libraryError(), nil}) }))
		require.NotContains(t, strings.Join(got, "\n"), "libraryError")
	})
	t.Run("is_not_there_for_an_error_without_a_stack", func(t *testing.T) {
		t.Parallel()
		require.Nil(t, lines(t, `"backtrace":true`, errBoom))
		require.Nil(t, lines(t, `"backtrace":true`, (*panickingTrace)(nil)))
		require.Nil(t, lines(t, `"backtrace":true`, otherTrace{}))
		require.Nil(t, lines(t, `"backtrace":true`, retry.ErrGoexit))
	})
}

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	policy := retry.Policy{PayloadLimit: limit}
	// big is a payload of exactly so many bytes.
	big := func(size int) string {
		fields := `"retry":9,"backtrace":true,"pad":""`
		return strings.Replace(payload(fields), `"pad":""`, `"pad":"`+strings.Repeat("x", size-len(payload(fields)))+`"`, 1)
	}
	long := &retry.PanicError{Value: strings.Repeat("\"日\x00", 3000), Stack: debug.Stack()}
	most := limit + job.PayloadSlack

	t.Run("is_never_exceeded_and_texts_are_cut_before_a_job_is_lost", func(t *testing.T) {
		t.Parallel()
		for size := most - 40_000; size < most; size += 997 {
			j, v := failed(t, policy, big(size), long)
			if v.Outcome.Exit() == job.ExitRetry {
				require.LessOrEqual(t, len(j.Raw()), most)
			} else {
				require.Greater(t, size, most-200, "there was room")
			}
		}
	})
	t.Run("cuts_the_stack_before_the_message", func(t *testing.T) {
		t.Parallel()
		whole, _ := failed(t, retry.Policy{}, payload(`"backtrace":true`), panicked(handler))
		_, ok := whole.Text("error_backtrace")
		require.True(t, ok)
		j, v := failed(t, policy, big(most-180), panicked(handler))
		require.Equal(t, job.ExitRetry, v.Outcome.Exit())
		require.Equal(t, "oh", text(t, j, "error_message"))
		_, ok = j.Text("error_backtrace")
		require.False(t, ok)
	})
	t.Run("kills_with_its_error_a_job_that_has_no_room_left_to_retry", func(t *testing.T) {
		t.Parallel()
		j, v := failed(t, policy, big(most-20), long)
		require.Equal(t, job.ExitDead, v.Outcome.Exit())
		require.True(t, v.Exhausted)
		require.Equal(t, "its payload has no room for another retry", v.Reason)
		require.Equal(t, "panic", text(t, j, "error_class"))
	})
}

func TestAnErrorThatPanicsHasATextAndNoPanicInIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "boom", retry.Text(errBoom))
	require.Equal(t, "(no text: the error's own method panicked)", retry.Text((*fs.PathError)(nil)))
	require.Nil(t, retry.Panicked(&badError{}))
	require.Nil(t, retry.Panicked(nil))
	panicked := &retry.PanicError{Value: 1}
	require.Same(t, panicked, retry.Panicked(fmt.Errorf("wrapped: %w", panicked)))
}
