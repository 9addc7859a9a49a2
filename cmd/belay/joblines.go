package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// maxLine is the maximum length of a line. No valid job is longer, however it is written; a longer line is
// refused without being kept in memory.
const maxLine = 2 * job.MaxPayloadLimit

// patience is how long a job that was read waits for more jobs when the input pauses. Lines from a pipe are
// pushed then, not when the next line comes.
const patience = 100 * time.Millisecond

// jobLines reads jobs from lines of JSON. It refuses lines that are not jobs, and skips empty ones.
type jobLines struct {
	lines   <-chan jobLine
	reading context.Context
	refuse  func(line int, err error)
	taken   int   // the number of the last line
	ended   bool  // no more lines follow
	err     error // why reading ended before the end of the input
}

// A jobLine is one line: a job, or the error why it is none, or neither if it is empty. If end is set there is
// no line, and none follows.
type jobLine struct {
	client.RawJob
	line, size int
	err, end   error
}

// newJobLines reads until the end of in or of the context reading. Its goroutine may stay behind in a blocked
// read.
func newJobLines(reading context.Context, in io.Reader, defaults client.RawJob, refuse func(int, error)) *jobLines {
	lines := make(chan jobLine) // unbuffered: a line may be long
	go readLines(reading, in, defaults, lines)
	return &jobLines{lines: lines, reading: reading, refuse: refuse}
}

// batch returns the next jobs: as many as one push takes, and fewer if the input pauses or ends.
func (l *jobLines) batch() (jobs []jobLine) {
	var pause <-chan time.Time
	over := l.reading.Done()
	for size := 0; !l.ended && len(jobs) < lua.MaxItems && size < lua.MaxBytes; {
		select {
		case line := <-l.lines:
			switch l.taken = max(l.taken, line.line); {
			case line.end != nil:
				l.stop(line.end)
			case line.err != nil:
				l.refuse(line.line, line.err)
			case line.Class != "":
				jobs, size = append(jobs, line), size+line.size
				if pause == nil {
					pause = time.After(patience)
				}
			}
		case <-over:
			over, pause = nil, time.After(patience) // lines that were read before come at once
		case <-pause:
			if over == nil {
				l.stop(context.Cause(l.reading))
			}
			return jobs
		}
	}
	return jobs
}

// stop records the end, and an error unless it is the end of the input.
func (l *jobLines) stop(err error) {
	l.ended = true
	if !errors.Is(err, io.EOF) {
		l.err = fmt.Errorf("read jobs: after line %d: %w", l.taken, err)
	}
}

// readNext reads the next jobs of a push from a file; none if it has no name.
func readNext(cmd *cobra.Command, name string) (jobs []client.RawJob, err error) {
	if name == "" {
		return nil, nil
	}
	in, done, err := openLines(cmd, name)
	if err != nil {
		return nil, err
	}
	defer done()
	refuse := func(line int, why error) { err = errors.Join(err, fmt.Errorf("--then, line %d: %w", line, why)) }
	lines := newJobLines(context.Background(), in, client.RawJob{}, refuse)
	for !lines.ended && err == nil {
		for _, j := range lines.batch() {
			jobs = append(jobs, j.RawJob)
		}
	}
	if err == nil && lines.err == nil && len(jobs) == 0 { // a program before the pipe has failed, perhaps
		err = errors.New("--then: the file has no job; nothing was pushed")
	}
	if err != nil {
		return nil, statusError{err, exitUsage}
	}
	return jobs, lines.err
}

// openLines opens a file of jobs; - is standard input.
func openLines(cmd *cobra.Command, name string) (in io.Reader, done func(), err error) {
	if name == "-" {
		return cmd.InOrStdin(), func() {}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read jobs: %w", err)
	}
	return file, func() { _ = file.Close() }, nil
}

// readLines sends the lines of in, and its end. It leaves out a line whose rest was not read.
func readLines(reading context.Context, in io.Reader, defaults client.RawJob, lines chan<- jobLine) {
	buffered := bufio.NewReaderSize(endingReader{reading, in}, maxLine+len("\n"))
	for number := 1; ; number++ {
		text, err := buffered.ReadSlice('\n')
		line := jobLine{line: number, size: len(text)}
		if errors.Is(err, bufio.ErrBufferFull) {
			line.err = fmt.Errorf("it is longer than %d bytes", maxLine)
		} else if text = bytes.TrimSpace(text); len(text) > 0 {
			line.RawJob, line.err = parseJobLine(text, defaults)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = buffered.ReadSlice('\n')
		}
		if err == nil || errors.Is(err, io.EOF) {
			lines <- line
		}
		if err != nil {
			lines <- jobLine{end: err}
			return
		}
	}
}

// maxRead limits how much is read at once. All lines that were read when a signal comes are pushed before the
// command ends.
const maxRead = 64 << 10

// An endingReader reads until its context ends.
type endingReader struct {
	context.Context
	io.Reader
}

func (r endingReader) Read(into []byte) (int, error) {
	if r.Err() != nil {
		return 0, context.Cause(r)
	}
	return r.Reader.Read(into[:min(len(into), maxRead)])
}

// lineKey is the field of a line with the key of its job. It does not go into the payload.
const lineKey = "belay_key"

// parseJobLine reads one job. Fields that are correct JSON but cannot be pushed are refused by the client.
func parseJobLine(text []byte, j client.RawJob) (client.RawJob, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return j, fmt.Errorf("it is not one JSON object: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := setField(&j, name, fields[name]); err != nil {
			return j, err
		}
	}
	if j.Class == "" {
		return j, errors.New(`it has no "class"`)
	}
	return j, nil
}

// setField sets one field of the payload. A field without its own place in a client.RawJob is kept as it is.
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
		return job.CheckQueue(j.Queue) // for the client an empty name is the default
	case "jid":
		return into(&j.JID)
	case lineKey:
		if err := into(&j.Key); err != nil {
			return err
		}
		if strings.ContainsRune(j.Key, utf8.RuneError) { // as JSON is read, several texts become this one
			return fmt.Errorf("the field %q is not valid UTF-8, or holds U+FFFD", name)
		}
		_, err := dedup.KeyDigest(j.Key) // for the client an empty key is none
		return err
	case job.FieldThen:
		var texts []json.RawMessage
		if err := into(&texts); err != nil {
			return err
		}
		for n, text := range texts {
			next, err := parseJobLine(text, client.RawJob{})
			if err != nil {
				return fmt.Errorf("its next job %d: %w", n+1, err)
			}
			j.Then = append(j.Then, next)
		}
	case job.FieldExpiresIn:
		var seconds float64
		if err := into(&seconds); err != nil || seconds <= 0 || seconds > 1e9 {
			return fmt.Errorf("the field %q is not a number of seconds", name)
		}
		j.ExpiresIn = time.Duration(seconds * float64(time.Second))
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
			return errors.New(`the field "at" is not a number of seconds since 1970`)
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
		switch string(value) {
		case "true":
			j.Backtrace = client.AllLines
		case "false", "null":
			j.Backtrace = 0
		default:
			return into(&j.Backtrace)
		}
	default:
		j.Extra = append(j.Extra, job.Edit{Name: name, JSON: string(value)})
	}
	return nil
}
