package subject

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Command is how a subject's program is started.
type Command struct {
	Path string
	Args []string
	// Dir is where it runs; empty is here.
	Dir string
	// Env is its whole environment; nil is ours.
	Env []string
}

// A Process is a subject at work, as the bench sees it.
type Process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *tail
	// events ends when the subject's standard output does; why is then set.
	events chan Event
	why    error
}

// graceAtClose is how long a subject may take to end. A worker that stops in order needs less.
const graceAtClose = 5 * time.Second

// Start starts the subject called name and hands it the task. The caller closes it.
func Start(name string, command Command, task Task) (*Process, error) {
	p := &Process{name: name, stderr: &tail{}, events: make(chan Event, 1024)}
	p.cmd = exec.Command(command.Path, command.Args...) // ends at Close: a context's end would be a kill -9 before its time
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = command.Dir, command.Env, p.stderr
	p.cmd.WaitDelay = graceAtClose // a grandchild that holds standard error must not hold the bench
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.read(stdout)
	line, err := json.Marshal(task)
	if err == nil {
		err = p.send(string(line))
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// read passes on the events until there are no more.
func (p *Process) read(stdout io.Reader) {
	defer close(p.events)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			var e Event
			if parseErr := json.Unmarshal(line, &e); parseErr != nil || e.Event == "" {
				p.why = fmt.Errorf("said what is no event: %.200q", line)
				return
			}
			p.events <- e
		}
		if err != nil {
			p.why = errors.New("ended without a last word")
			return
		}
	}
}

// Next is the next event, whatever it is. A subject that has failed, ended, or said nothing for so long is an
// error, with the beginning and the end of its standard error.
func (p *Process) Next(ctx context.Context, within time.Duration) (Event, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case e, ok := <-p.events:
		switch {
		case !ok:
			return Event{}, p.wrong(p.why)
		case e.Event == Failed:
			return Event{}, p.wrong(errors.New(e.Text))
		}
		return e, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	case <-timer.C:
		return Event{}, p.wrong(fmt.Errorf("said nothing for %v", within))
	}
}

// Expect is the next event, which must be the one called name.
func (p *Process) Expect(ctx context.Context, name string, within time.Duration) (Event, error) {
	e, err := p.Next(ctx, within)
	if err == nil && e.Event != name {
		err = p.wrong(fmt.Errorf("said %q where %q was due", e.Event, name))
	}
	return e, err
}

// Go tells a subject that waits to go on.
func (p *Process) Go() error { return p.send("go") }

func (p *Process) send(line string) error {
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		return p.wrong(fmt.Errorf("cannot write to the subject: %w", err))
	}
	return nil
}

func (p *Process) wrong(err error) error {
	// Where it has ended, its last words on standard error have been written, and only need a moment to be
	// read.
	if text := p.stderr.String(); text != "" {
		return fmt.Errorf("%s: %w; its standard error:\n%s", p.name, err, text)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// Kill ends it with SIGKILL and waits until it is gone. A second call, and Close after it, do nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	p.reap()
}

// Close ends its standard input, which asks it to end, and waits until it is gone: killed, if it will not.
func (p *Process) Close() {
	_ = p.stdin.Close()
	timer := time.AfterFunc(graceAtClose, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	p.reap()
}

// reap reads what it still says, so that it can end, and waits for its end.
func (p *Process) reap() {
	for range p.events { // only its end is wanted
		continue
	}
	_ = p.cmd.Wait() // its end was expected, or an event has reported it
}

// shownEach is how much of a failed subject's standard error is shown of its beginning, and as much of its
// end. A Go panic tells its cause first, and then screenfuls of stacks; an error of Ruby or Node may come
// last, after warnings.
const shownEach = 2048

// A tail keeps the first and the last that was written to it.
type tail struct {
	mu          sync.Mutex
	first, last []byte
	// dropped is how many bytes between the two are forgotten.
	dropped int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	head := min(len(p), shownEach-len(t.first))
	t.first = append(t.first, p[:head]...)
	t.last = append(t.last, p[head:]...)
	if extra := len(t.last) - shownEach; extra > 0 {
		t.dropped += extra
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

// String is what was written first and last, without blanks around it, and between them how much is left out.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := ""
	if t.dropped > 0 {
		between = fmt.Sprintf("\n… %d bytes …\n", t.dropped)
	}
	return strings.TrimSpace(string(t.first) + between + string(t.last))
}
