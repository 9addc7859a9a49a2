package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
)

// A runner runs jobs as programs.
type runner struct {
	spawner  *spawner
	start    func(*exec.Cmd) (<-chan syscall.WaitStatus, error) // the spawner's
	environ  []string
	log      *slog.Logger
	shortage shortage
	space    *workspace // nil if none could be made
	noted    sync.Map   // the classes whose results were logged as not kept
}

func newRunner(log *slog.Logger, spawner *spawner) *runner {
	return &runner{
		spawner: spawner, start: spawner.start, environ: withoutRedis(os.Environ()), log: log,
		shortage: shortage{log: log, now: time.Now},
	}
}

// withoutRedis removes the variables that programs must not inherit: the Redis URL with its password, those
// of another job (if a program of ours started us), and systemd's, because the programs are not the service.
func withoutRedis(environ []string) []string {
	private := append([]string{walVariable, cursorVariable, resultVariable, batchVariable, afterVariable, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}, urlVariables...)
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(private, name)
	})
}

// handler returns a handler that runs each job in a process of p.
func (r *runner) handler(p program) launcher.Handler {
	return func(ctx context.Context, j *job.Job) error {
		info, _ := launcher.Info(ctx)
		cmd := exec.Command(p.path)
		cmd.Args = p.words
		cmd.Env = append(slices.Clip(r.environ),
			"BELAY_JID="+j.JID(), "BELAY_CLASS="+j.Class(), "BELAY_QUEUE="+info.Queue,
			"BELAY_RETRY_COUNT="+strconv.Itoa(j.FailedRuns()))
		if b, ok := lua.BatchOf(j); ok {
			cmd.Env = append(cmd.Env, batchVariable+"="+b.ID)
		}
		if after := j.After(); after != "" && !strings.Contains(after, "\x00") { // no environment can have that byte
			cmd.Env = append(cmd.Env, afterVariable+"="+after)
		}
		if positions := dedup.ReadWAL(j).Edit(walVariable).JSON; positions != "" {
			cmd.Env = append(cmd.Env, walVariable+"="+positions)
		}
		files, err := r.space.prepare(ctx)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", cursorVariable, r.shortage.judge(err))
		}
		defer files.remove()
		cmd.Env = append(cmd.Env, files.environ()...)
		return r.run(ctx, cmd, j, files)
	}
}

// walVariable names the variable with the positions that databases must have reached, as a JSON object.
const walVariable = "BELAY_WAL_POSITIONS"

// Variables of jobs that belong together: the id of the batch of a member or a callback, and the jid of the job
// that a next job follows.
const batchVariable, afterVariable = "BELAY_BATCH", "BELAY_AFTER"

// run runs one process until it ends or ctx ends.
func (r *runner) run(ctx context.Context, cmd *exec.Cmd, j *job.Job, files *jobFiles) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	stderr, stdout := &tail{}, &tail{}
	cmd.Stdin, cmd.Stderr = strings.NewReader(j.ArgsJSON()), stderr
	if r.log.Enabled(ctx, slog.LevelDebug) {
		cmd.Stdout = stdout
	}
	exit, err := r.start(cmd)
	if err != nil {
		return fmt.Errorf("run %s: %w", cmd.Args[0], r.shortage.judge(err))
	}
	r.shortage.started()
	how, err := r.awaitEnd(ctx, cmd, exit, j, files)
	if len(stdout.kept) > 0 {
		r.log.Debug("printed", "jid", j.JID(), "stdout", stdout.String())
	}
	switch {
	case how != "":
		return &programError{how: how, output: stderr.String()}
	case err == nil:
		r.keepResult(ctx, j, files)
	}
	return err
}

// cursorLook is how often the runner reads what a program has left as its cursor. It is shorter than the
// interval of saves, which bounds how often a cursor is written to Redis, and costs a wake-up and a small read.
const cursorLook = time.Second

// awaitEnd waits for a process, and ends its group if ctx ends first. The exit status of a cancelled program
// is ignored: many exit with status 0 at SIGTERM, and the job would be lost.
//
// Meanwhile it keeps the cursors that the program leaves. A program that has left one can go on elsewhere, so
// it gets SIGTERM when the worker begins to stop. One without would lose its work, so it may use the shutdown
// timeout.
func (r *runner) awaitEnd(ctx context.Context, cmd *exec.Cmd, exit <-chan syscall.WaitStatus, j *job.Job, files *jobFiles) (how string, err error) {
	look := time.NewTicker(cursorLook)
	defer look.Stop()
	stopping, stop, interrupted := launcher.Stopping(ctx), false, false
	ended := func(status syscall.WaitStatus) (string, error) {
		finish(cmd, pipeGrace)
		r.keepCursor(ctx, j, files, true)
		if interrupted {
			return "", launcher.Interrupted
		}
		return ending(status), nil
	}
	for ctx.Err() == nil {
		select {
		case status := <-exit:
			return ended(status)
		case <-ctx.Done():
			continue
		case <-stopping:
			stopping, stop = nil, true
		case <-look.C:
		}
		if !r.keepCursor(ctx, j, files, false) {
			continue
		}
		if stop && !interrupted {
			interrupted = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
		go func() { _ = launcher.SaveCursor(ctx) }() // it may wait for Redis; at most one waits at a time
	}
	select {
	case status := <-exit: // ctx and the program ended together: the program ended by itself
		return ended(status)
	default:
	}
	endGroup(cmd.Process.Pid)
	<-exit
	finish(cmd, time.Nanosecond) // its output is ignored too
	r.keepCursor(ctx, j, files, true)
	return "", context.Cause(ctx)
}

// keepCursor records the cursor that the program has left, and reports whether there is one, other than null.
// A cursor that is not one may be half written: it is logged if it is the last one, or the same at two looks.
func (r *runner) keepCursor(ctx context.Context, j *job.Job, files *jobFiles, last bool) bool {
	text, err := readJSON(cursorVariable, files.cursor, launcher.MaxCursor)
	if err == nil && text != nil && string(text) != files.kept {
		files.kept, err = string(text), launcher.KeepCursor(ctx, text)
	}
	before := files.problem
	if files.problem = ""; err != nil {
		files.problem = err.Error()
	}
	if err != nil && (last || files.problem == before) && !files.logged {
		files.logged = true
		r.log.Error("cursor not kept", "error", err, "jid", j.JID(), "class", j.DisplayClass())
	}
	return err == nil && text != nil && string(text) != "null"
}

// keepResult records the result that a program has left. The launcher logs why a tracked job has none.
func (r *runner) keepResult(ctx context.Context, j *job.Job, files *jobFiles) {
	text, err := readJSON(resultVariable, files.result, launcher.MaxResult)
	if text == nil && err == nil {
		return
	}
	if _, tracked := j.Track(); tracked {
		_ = launcher.KeepResult(ctx, text, err)
		return
	}
	if _, noted := r.noted.LoadOrStore(j.DisplayClass(), true); !noted {
		r.log.Warn("result not kept: the job is not tracked",
			"class", j.DisplayClass(), "advice", "push jobs of this class with --track, or with Track in Go")
	}
}

// A programError reports that a program ended with a status other than 0.
type programError struct {
	how    string // "exit status 3", "signal: killed"
	output string // the end of its standard error
}

func (e *programError) Error() string {
	if e.output == "" {
		return e.how
	}
	return e.how + ": " + e.output
}

// ErrorClass returns the error class that operators see.
func (e *programError) ErrorClass() string { return "ExitStatus" }

// withoutOutput returns what a log that is kept shows of a run's error. It leaves out the program's output,
// which may hold anything, arguments included; it is stored with the job in Redis. A terminal shows it, because
// the person at it needs the reason and keeps no log.
func withoutOutput(_ string, err error) string {
	var exit *programError
	if errors.As(err, &exit) {
		return exit.how
	}
	return err.Error()
}

// tailBytes is how much of a program's standard error becomes the error message, which is stored in Redis
// with the job. The cause is usually in the last lines.
const tailBytes = 4 << 10

// A tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(part []byte) (int, error) {
	t.kept = append(t.kept, part[max(0, len(part)-tailBytes):]...)
	if len(t.kept) > 2*tailBytes {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailBytes:]...)
	}
	return len(part), nil
}

// String returns the last tailBytes as valid text, cut between characters.
func (t *tail) String() string {
	text := strings.ToValidUTF8(string(t.kept), "\ufffd")
	for cut := len(text) - tailBytes; cut > 0 && cut < len(text); cut++ {
		if utf8.RuneStart(text[cut]) {
			text = text[cut:]
			break
		}
	}
	return strings.TrimSpace(text)
}
