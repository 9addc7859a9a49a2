package main

import (
	"fmt"
	"io"
	"sync"
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

// mostLost is how much is told of what could not be written: enough for a jid, a receipt or a count.
const mostLost = 200

// failure is an error when something could not be written.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("the output cannot be written: %w", o.err)
}
