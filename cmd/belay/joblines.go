package main

import (
	"bufio"
	"bytes"
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

// jobLines reads jobs from lines of JSON. Those that are none are refused and passed over; empty lines are passed over.
type jobLines struct {
	in       *bufio.Reader
	defaults client.Job
	refuse   func(line int, why error)
	line     int
	err      error // why reading ended before the end
}

func newJobLines(in io.Reader, defaults client.Job, refuse func(int, error)) *jobLines {
	return &jobLines{in: bufio.NewReaderSize(in, 64<<10), defaults: defaults, refuse: refuse}
}

// next is the next job; not ok at the end, or at an error, which is in err then.
func (l *jobLines) next() (numbered, bool) {
	for l.err == nil {
		text, long, more := l.read()
		if !more {
			break
		}
		l.line++
		text = bytes.TrimSpace(text)
		switch {
		case long:
			l.refuse(l.line, fmt.Errorf("it is longer than %d bytes", mostLine))
			continue
		case len(text) == 0:
			continue
		}
		j, err := parseJobLine(text, l.defaults)
		if err != nil {
			l.refuse(l.line, err)
			continue
		}
		return numbered{j, l.line}, true
	}
	return numbered{}, false
}

// read reads a line; of one that is too long only that it was.
func (l *jobLines) read() (text []byte, long, more bool) {
	for {
		part, err := l.in.ReadSlice('\n')
		more = more || len(part) > 0
		if long = long || len(text)+len(part) > mostLine; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return text, long, true
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return text, long, more
		default:
			l.err = fmt.Errorf("read jobs: after line %d: %w", l.line, err)
			return nil, false, false
		}
	}
}

// parseJobLine reads one job. What encoding/json refuses is refused; what is in order but cannot be pushed, the client
// refuses.
func parseJobLine(text []byte, j client.Job) (client.Job, error) {
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

// setField sets what a field of the payload says. A field that has no place of its own in a client.Job is kept as it is.
func setField(j *client.Job, name string, value json.RawMessage) error {
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

func setBacktrace(j *client.Job, value json.RawMessage, into func(any) error) error {
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
