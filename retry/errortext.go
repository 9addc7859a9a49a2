package retry

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/belayq/belay/job"
)

// A handler's error is the user's code: its Error, Unwrap and ErrorClass may panic (those of a nil pointer
// often do), and a chain of errors may have no end. Only this file calls these methods, and recovers their
// panics. Package launcher uses Text and Panicked.

const (
	// maxMessage is Sidekiq's bound for error_message, in characters.
	maxMessage = 10_000
	// maxClass bounds error_class, in characters; generic types can have names of any length.
	maxClass = 255
	// maxChain bounds how many errors of a chain are read: more than programs wrap, few enough to end soon.
	maxChain = 1000
)

// textOf returns the text that a method returns, or the other text if the method panics.
func textOf(method func() string, otherwise string) (text string) {
	defer func() {
		if recover() != nil {
			text = otherwise
		}
	}()
	return method()
}

// noText replaces the text of an error whose methods panic.
const noText = "(no text: the error's own method panicked)"

// Text returns the text of an error, whatever its methods do. If a method panics, as of a nil pointer, it
// returns noText.
func Text(err error) string { return textOf(err.Error, noText) }

// message returns the error_message. It does not begin with "panic", because error_class says so wherever the
// message is shown.
func message(err error) string {
	text := Text(err)
	if Class(err) == panicClass {
		text = strings.TrimPrefix(text, panicClass+": ")
	}
	return shorten(text, maxMessage)
}

// Describe returns the error_class and the error_message that a failed job gets for an error.
func Describe(err error) (class, text string) { return Class(err), message(err) }

// shorten cuts text to a number of characters and makes it valid UTF-8: a single invalid byte would make the
// payload unreadable.
func shorten(text string, characters int) string {
	for i := range text {
		if characters--; characters < 0 {
			text = text[:i]
			break
		}
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// chain returns err and the errors that it wraps, outermost first, in the order of errors.As. It ends at a
// method that panics.
func chain(err error) (links []error) {
	defer func() { _ = recover() }()
	left := []error{err}
	for len(left) > 0 && len(links) < maxChain {
		err := left[len(left)-1]
		left = left[:len(left)-1]
		if err == nil {
			continue
		}
		links = append(links, err)
		switch e := err.(type) { //nolint:errorlint // this is the walk along the chain
		case interface{ Unwrap() error }:
			left = append(left, e.Unwrap())
		case interface{ Unwrap() []error }:
			inner := slices.Clone(e.Unwrap())
			slices.Reverse(inner)
			left = append(left, inner...)
		}
	}
	return links
}

// AskOf returns the outermost AskError of the handler, whatever the methods of its error do; the zero AskError
// if there is none, or if the handler panicked.
func AskOf(err error) AskError {
	for _, link := range chain(err) {
		switch e := link.(type) { //nolint:errorlint // each link of the chain is visited by itself
		case *PanicError:
			return AskError{}
		case *AskError:
			if e != nil {
				return *e
			}
		}
	}
	return AskError{}
}

// Panicked returns the panic among the errors of a chain, whatever their methods do; nil if there is none.
func Panicked(err error) *PanicError {
	for _, link := range chain(err) {
		if panicked, ok := link.(*PanicError); ok { //nolint:errorlint // each link of the chain is visited by itself
			return panicked
		}
	}
	return nil
}

// Is is errors.Is for a chain whose methods may panic.
func Is(err, target error) bool {
	return slices.ContainsFunc(chain(err), func(link error) bool { return linkIs(link, target) })
}

// linkIs reports whether an error of a chain, without those that it wraps, is the target. It is not if its
// method panics, or if the two cannot be compared.
func linkIs(link, target error) (is bool) {
	defer func() { _ = recover() }()
	if reflect.TypeOf(target).Comparable() && link == target { //nolint:errorlint // each link of the chain is visited by itself
		return true
	}
	own, ok := link.(interface{ Is(target error) bool })
	return ok && own.Is(target)
}

// Class returns the error_class: the result of the error's method ErrorClass() string, else the first specific
// type in its chain, as Go writes it without the asterisk ("fs.PathError"). The types of errors.New and
// fmt.Errorf are not specific; a chain of only these has the class "error".
func Class(err error) string {
	for _, err := range chain(err) {
		if e, ok := err.(interface{ ErrorClass() string }); ok {
			if text := textOf(e.ErrorClass, ""); text != "" {
				return shorten(text, maxClass)
			}
		}
		t := reflect.TypeOf(err)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t != reflect.TypeFor[AskError]() && t.PkgPath() != "errors" && t.PkgPath() != "fmt" {
			return shorten(t.String(), maxClass)
		}
	}
	return "error"
}

// backtrace returns the error_backtrace: as many lines of the error's stack as the job requests. Panics
// have a stack, and so do the errors of libraries that record one (see callers); Go's plain errors
// have none. Of several stacks in a chain the innermost is used, because the error began there. A panic's own
// stack takes precedence over the stack of the panic's value.
func backtrace(j *job.Job, err error) (lines []string) {
	count, all := j.Backtrace()
	if count == 0 && !all {
		return nil
	}
	for _, err := range chain(err) {
		if e, ok := err.(*PanicError); ok && e != nil { //nolint:errorlint // each link of the chain is visited by itself
			if own := frames(string(e.Stack)); own != nil {
				lines = own
				break
			}
		}
		if pcs := callers(err); len(pcs) > 0 {
			lines = framesAt(pcs)
		}
	}
	if !all && len(lines) > count {
		lines = lines[:count]
	}
	return lines
}

// frames converts the text of debug.Stack, where a frame is two lines, to one line per frame in Ruby's format.
// It leaves out the frames between the failure and our recover.
func frames(stack string) []string {
	var lines []string
	function := ""
	for line := range strings.Lines(strings.ToValidUTF8(stack, "\ufffd")) {
		line = strings.TrimRight(line, "\r\n")
		place, indented := strings.CutPrefix(line, "\t")
		if !indented {
			function = withoutArguments(line)
			continue
		}
		if function == "panic" || function == "runtime.Goexit" {
			lines = nil
			continue
		}
		place, _, _ = strings.Cut(place, " +0x")
		lines = append(lines, fmt.Sprintf("%s:in %s", place, function))
	}
	return lines
}

// maxFrames bounds how many frames of an error's stack are resolved. Go itself shows a hundred.
const maxFrames = 1000

// callers returns the stack that an error recorded, in the form of runtime.Callers: from the method
// StackTrace of pkg/errors and similar libraries, whose result is a slice of their own uintptr type; Callers
// of go-errors; StackFrames of eris. It returns nil if there is no such method, or if it panics.
func callers(err error) (pcs []uintptr) {
	defer func() {
		if recover() != nil {
			pcs = nil
		}
	}()
	switch e := err.(type) { //nolint:errorlint // each link of the chain is visited by itself
	case interface{ Callers() []uintptr }:
		return e.Callers()
	case interface{ StackFrames() []uintptr }:
		return e.StackFrames()
	}
	// The result has a type of the library, which this module does not import.
	method := reflect.ValueOf(err).MethodByName("StackTrace")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	if t := method.Type().Out(0); t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uintptr {
		return nil
	}
	trace := method.Call(nil)[0]
	for i := range min(trace.Len(), maxFrames) {
		pcs = append(pcs, uintptr(trace.Index(i).Uint()))
	}
	return pcs
}

// framesAt formats the result of runtime.Callers, one line per frame, in the format of frames.
func framesAt(pcs []uintptr) []string {
	var lines []string
	found := runtime.CallersFrames(pcs[:min(len(pcs), maxFrames)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = found.Next()
		if frame.File != "" && frame.Function != "runtime.goexit" {
			lines = append(lines, fmt.Sprintf("%s:%d:in %s", strings.ToValidUTF8(frame.File, "\ufffd"), frame.Line, frame.Function))
		}
	}
	return lines
}

func withoutArguments(call string) string {
	if at := strings.LastIndexByte(call, '('); at >= 0 && strings.HasSuffix(call, ")") {
		return call[:at]
	}
	return call
}
