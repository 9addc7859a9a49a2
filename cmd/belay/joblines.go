package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
)

// mostLine is the longest line that is looked at. No job that may be pushed is longer, however it is written; what is
// longer is refused without being kept in memory.
const mostLine = 2 * job.MaxPayloadLimit

// patience is how long the jobs that have been read wait for company when the input pauses: what comes through a pipe is
// pushed then, and not when the next line comes. It is what the client gives a slow iterator, too.
const patience = 100 * time.Millisecond

// jobLines reads jobs from lines of JSON. Those that are none are refused and passed over; empty lines are passed over.
type jobLines struct {
	lines    <-chan jobLine
	unwanted chan struct{} // closed when nobody takes any more
	reading  context.Context
	pause    *time.Timer
	defaults client.RawJob
	refuse   func(line int, why error)
	taken    int   // the last line that was
	ended    bool  // there is nothing more to come
	err      error // why reading ended before the end
}

// A jobLine is one line as it was read. One that has an end is none, and is the last.
type jobLine struct {
	number int
	text   []byte
	long   bool
	end    error
}

// newJobLines reads until the end of in, or until reading ends, and wants to be closed. The goroutine that reads may stay
// behind in a read that nothing can end.
func newJobLines(reading context.Context, in io.Reader, defaults client.RawJob, refuse func(int, error)) *jobLines {
	lines := make(chan jobLine) // not buffered: a line may be long
	l := &jobLines{lines: lines, unwanted: make(chan struct{}), reading: reading, pause: time.NewTimer(0), defaults: defaults, refuse: refuse}
	l.pause.Stop()
	go readLines(reading, in, lines, l.unwanted)
	return l
}

func (l *jobLines) close() { close(l.unwanted) }

// next is the next job; not ok at the end, at an error, which is in err then, and when jobs are waiting and none comes soon.
func (l *jobLines) next(waiting bool) (numbered, bool) {
	if waiting {
		l.pause.Reset(patience)
	}
	defer l.pause.Stop()
	for !l.ended {
		line, ok := l.take()
		if !ok {
			break
		}
		if line.end != nil {
			l.stop(line.end)
			break
		}
		l.taken = line.number
		text := bytes.TrimSpace(line.text)
		switch {
		case line.long:
			l.refuse(line.number, fmt.Errorf("it is longer than %d bytes", mostLine))
			continue
		case len(text) == 0:
			continue
		}
		j, err := parseJobLine(text, l.defaults)
		if err != nil {
			l.refuse(line.number, err)
			continue
		}
		return numbered{j, line.number}, true
	}
	return numbered{}, false
}

// take is the next line. When reading has ended it is what had been read before, and then none.
func (l *jobLines) take() (line jobLine, ok bool) {
	over := l.reading.Done()
	for {
		select {
		case line = <-l.lines:
			return line, true
		case <-over:
			over = nil
			l.pause.Reset(patience) // what had been read comes at once
		case <-l.pause.C:
			if over == nil {
				l.stop(context.Cause(l.reading))
			}
			return line, false
		}
	}
}

// stop notes the end, and what brought it.
func (l *jobLines) stop(why error) {
	l.ended = true
	if !errors.Is(why, io.EOF) {
		l.err = fmt.Errorf("read jobs: after line %d: %w", l.taken, why)
	}
}

// readLines reads lines, each when the one before has been taken, and the end.
func readLines(reading context.Context, in io.Reader, lines chan<- jobLine, unwanted <-chan struct{}) {
	buffered := bufio.NewReaderSize(endingReader{reading, in}, 64<<10)
	for number := 1; ; number++ {
		line := readLine(buffered)
		line.number = number
		select {
		case lines <- line:
		case <-unwanted:
			return
		}
		if line.end != nil {
			return
		}
	}
}

// readLine reads a line; of one that is too long only that it was.
func readLine(in *bufio.Reader) (line jobLine) {
	some := false
	for {
		part, err := in.ReadSlice('\n')
		some = some || len(part) > 0
		if line.long = line.long || len(line.text)+len(part) > mostLine; line.long {
			line.text = nil
		} else {
			line.text = append(line.text, part...)
		}
		switch {
		case err == nil:
			return line
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && some: // the last line may lack its end; the next read answers EOF again
			return line
		default:
			return jobLine{end: err}
		}
	}
}

// An endingReader reads until its context ends.
type endingReader struct {
	context.Context
	io.Reader
}

func (r endingReader) Read(into []byte) (int, error) {
	if r.Err() != nil {
		return 0, context.Cause(r)
	}
	return r.Reader.Read(into)
}

// parseJobLine reads one job. What encoding/json refuses is refused; what is in order but cannot be pushed, the client
// refuses.
func parseJobLine(text []byte, j client.RawJob) (client.RawJob, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return j, errors.New("it is not a JSON object")
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return j, fmt.Errorf("it is not JSON: %w", err)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return j, fmt.Errorf("it is not JSON: %w", err)
		}
		if err := setField(&j, fmt.Sprint(name), value); err != nil {
			return j, err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return j, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return j, errors.New("there is more than one JSON object in the line")
	}
	if j.Class == "" {
		return j, errors.New(`it has no "class"`)
	}
	return j, nil
}

// setField sets what a field of the payload says. A field that has no place of its own in a client.RawJob is kept as it is.
func setField(j *client.RawJob, name string, value json.RawMessage) error {
	into := func(target any) error {
		if json.Unmarshal(value, target) != nil {
			return fmt.Errorf("the field %q has the wrong type", name)
		}
		return nil
	}
	switch name {
	case "class":
		return into(&j.Class)
	case "queue":
		if err := into(&j.Queue); err != nil {
			return err
		}
		return job.CheckQueue(j.Queue) // the client would take an empty name for "not said"
	case "jid":
		return into(&j.JID)
	case "retry_queue":
		return into(&j.RetryQueue)
	case "tags":
		return into(&j.Tags)
	case "args":
		if value[0] != '[' {
			return errors.New(`the field "args" is not an array`)
		}
		j.ArgsJSON = string(value)
	case "retry":
		rule, err := parseRetry(string(value))
		if err != nil {
			return errors.New(`the field "retry" is not a number of retries, true or false`)
		}
		j.Retry = rule
	case "at":
		var seconds float64
		if err := into(&seconds); err != nil {
			return err
		}
		if seconds < 0 || seconds > 1e11 {
			return errors.New(`the field "at" is no number of seconds since 1970`)
		}
		j.At = time.UnixMicro(int64(seconds * 1e6))
	case "retry_for":
		var seconds uint32
		err := into(&seconds)
		j.RetryFor = time.Duration(seconds) * time.Second
		return err
	case "dead":
		var dead bool
		err := into(&dead)
		j.NoDead = !dead
		return err
	case "backtrace":
		return setBacktrace(j, value, into)
	default:
		j.Extra = append(j.Extra, job.Edit{Name: name, JSON: string(value)})
	}
	return nil
}

func setBacktrace(j *client.RawJob, value json.RawMessage, into func(any) error) error {
	switch string(value) {
	case "true":
		j.Backtrace = client.AllLines
	case "false", "null":
		j.Backtrace = 0
	default:
		return into(&j.Backtrace)
	}
	return nil
}
