package subject

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Func does one measure in a subject. It begins with Ready and ends with Done.
type Func func(ctx context.Context, task Task, talk *Talk) error

// A Talk is the subject's side of the conversation. Its methods may be called from any goroutine.
type Talk struct {
	mu   sync.Mutex // of out
	out  *json.Encoder
	goes <-chan struct{}
}

// errBenchGone is why a context ends whose bench has died.
var errBenchGone = errors.New("the bench is gone")

// graceAfterEOF is how long a subject has to end by itself when its bench has gone: a worker's orderly stop
// at most.
const graceAfterEOF = 3 * time.Second

// Serve reads the Task from in, does it, and answers the process' exit status. The context of the measure
// ends with in; what then has not returned within a few seconds ends with the process.
func Serve(ctx context.Context, in io.Reader, out io.Writer, measures map[string]Func) int {
	talk := &Talk{out: json.NewEncoder(out)}
	lines := bufio.NewReader(in)
	var task Task
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &task)
	}
	if err != nil {
		return talk.fail(fmt.Errorf("read the task: %w", err))
	}
	run, known := measures[task.Measure]
	if !known {
		return talk.fail(fmt.Errorf("measure %q: this subject knows %s", task.Measure, strings.Join(slices.Sorted(maps.Keys(measures)), ", ")))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	talk.goes = listen(lines, func() {
		cancel(errBenchGone)
		time.AfterFunc(graceAfterEOF, func() { os.Exit(1) })
	})
	if err := run(ctx, task, talk); err != nil {
		return talk.fail(err)
	}
	return 0
}

// listen passes on each line as one word to go on, and says when there will be no more.
func listen(lines *bufio.Reader, gone func()) <-chan struct{} {
	goes := make(chan struct{}, 8)
	go func() {
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				gone()
				return
			}
			goes <- struct{}{}
		}
	}()
	return goes
}

// Say says one event and does not wait.
func (t *Talk) Say(e Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Encode(e)
}

// SayAndWait says one event and returns when the bench has said to go on.
func (t *Talk) SayAndWait(ctx context.Context, e Event) error {
	if err := t.Say(e); err != nil {
		return err
	}
	select {
	case <-t.goes:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ready says that everything is open, and waits.
func (t *Talk) Ready(ctx context.Context) error { return t.SayAndWait(ctx, Event{Event: Ready}) }

// Pushed says that all jobs are stored and how long that took, and waits.
func (t *Talk) Pushed(ctx context.Context, took time.Duration) error {
	return t.SayAndWait(ctx, Event{Event: Pushed, Seconds: took.Seconds()})
}

// Done says the figures; e.Event is filled in.
func (t *Talk) Done(e Event) error {
	e.Event = Done
	return t.Say(e)
}

func (t *Talk) fail(err error) int {
	_ = t.Say(Event{Event: Failed, Text: err.Error()}) // an error of this cannot be reported
	return 1
}
