package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// An output is a stream that remembers that something could not be written to it. Who prints need not ask each time.
type output struct {
	io.Writer

	mu   sync.Mutex
	err  error  // of the first write that failed
	lost string // what that was to write
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err == nil {
		o.err, o.lost = err, string(text[:min(len(text), mostLost)])
	}
	return n, err
}

// outputOf is where a command prints.
func outputOf(cmd *cobra.Command) *output {
	if out, ok := cmd.OutOrStdout().(*output); ok {
		return out
	}
	return &output{Writer: cmd.OutOrStdout()}
}

// mostLost is how much is told of what could not be written: enough for a jid, a receipt or a count.
const mostLost = 200

// failure is an error when something could not be written.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return lostError{o.err, o.lost}
}

// A lostError says that a command could not tell of what it has done, and tells it.
type lostError struct {
	error
	lost string
}

func (e lostError) Error() string {
	return fmt.Sprintf("the output cannot be written: %v; it was to say: %s", e.error, strings.TrimSpace(e.lost))
}

func (e lostError) Unwrap() error { return e.error }

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	if out, ok := stream.(*output); ok {
		stream = out.Writer
	}
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
