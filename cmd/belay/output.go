package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/logbook"
)

// An output keeps the first error of its writes, so that the code that prints need not check each.
type output struct {
	io.Writer

	mu   sync.Mutex
	err  error  // of the first write that failed
	lost string // the text of that write
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err == nil {
		o.err, o.lost = err, string(text[:min(len(text), maxLost)])
	}
	return n, err
}

// outputOf returns the output of a command.
func outputOf(cmd *cobra.Command) *output {
	if out, ok := cmd.OutOrStdout().(*output); ok {
		return out
	}
	return &output{Writer: cmd.OutOrStdout()}
}

// maxLost limits how much of the lost text an error repeats: enough for a jid, a receipt or a count.
const maxLost = 200

// failure returns an error if a write has failed. It repeats the result that could not be written.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("the output cannot be written: %w; lost output: %s", o.err, strings.TrimSpace(o.lost))
}

// fileOf returns the file behind a stream, or nil.
func fileOf(stream any) *os.File {
	if out, ok := stream.(*output); ok {
		stream = out.Writer
	}
	file, _ := stream.(*os.File)
	return file
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file := fileOf(stream)
	return file != nil && logbook.IsTerminal(file)
}

// plural returns one for 1, and else many with the number.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}
