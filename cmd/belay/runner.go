package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A runner runs jobs as programs.
type runner struct {
	spawner  *spawner
	start    func(*exec.Cmd) (<-chan syscall.WaitStatus, error) // the spawner's
	environ  []string
	log      zerolog.Logger
	shortage shortage
}

func newRunner(log zerolog.Logger, spawner *spawner) *runner {
	return &runner{
		spawner: spawner, start: spawner.start, environ: withoutRedis(os.Environ()), log: log,
		shortage: shortage{log: log, now: time.Now},
	}
}

// withoutRedis removes the variables that programs must not inherit: the Redis URL with its password, the
// positions of another job (if a program of ours started us), and systemd's, because the programs are not the
// service.
func withoutRedis(environ []string) []string {
	private := append([]string{walVariable, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}, urlVariables...)
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
			"BELAY_RETRY_COUNT="+strconv.Itoa(failedRuns(j)))
		if positions := dedup.ReadWAL(j).Edit(walVariable).JSON; positions != "" {
			cmd.Env = append(cmd.Env, walVariable+"="+positions)
		}
		return r.run(ctx, cmd, j)
	}
}

// walVariable names the variable with the positions that databases must have reached, as a JSON object.
const walVariable = "BELAY_WAL_POSITIONS"

// failedRuns returns how many runs of the job have failed. An operator's retry sets retry_count to -1.
func failedRuns(j *job.Job) int {
	count, failed := j.RetryCount()
	if !failed {
		return 0
	}
	return max(count+1, 0)
}

// run runs one process until it ends or ctx ends.
func (r *runner) run(ctx context.Context, cmd *exec.Cmd, j *job.Job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said, printed := &tail{}, &tail{}
	cmd.Stdin, cmd.Stderr = strings.NewReader(j.ArgsJSON()), said
	if r.log.GetLevel() <= zerolog.DebugLevel {
		cmd.Stdout = printed
	}
	exit, err := r.start(cmd)
	if err != nil {
		return fmt.Errorf("run %s: %w", cmd.Args[0], r.shortage.judge(err))
	}
	r.shortage.started()
	how, err := awaitEnd(ctx, cmd, exit)
	if len(printed.kept) > 0 {
		r.log.Debug().Str("jid", j.JID()).Str("stdout", printed.String()).Msg("printed")
	}
	if how != "" {
		return &programError{how: how, said: said.String()}
	}
	return err
}

// awaitEnd waits for a process, and ends its group if ctx ends first. The exit status of a cancelled program
// is ignored: many exit with status 0 at SIGTERM, and the job would be lost.
func awaitEnd(ctx context.Context, cmd *exec.Cmd, exit <-chan syscall.WaitStatus) (how string, err error) {
	select {
	case status := <-exit:
		finish(cmd, pipeGrace)
		return ending(status), nil
	case <-ctx.Done():
	}
	select {
	case status := <-exit: // ctx and the program ended together: the program ended by itself
		finish(cmd, pipeGrace)
		return ending(status), nil
	default:
	}
	endGroup(cmd.Process.Pid)
	<-exit
	finish(cmd, time.Nanosecond) // its output is ignored too
	return "", context.Cause(ctx)
}

// A programError reports that a program ended with a status other than 0.
type programError struct {
	how  string // "exit status 3", "signal: killed"
	said string // the end of its standard error
}

func (e *programError) Error() string {
	if e.said == "" {
		return e.how
	}
	return e.how + ": " + e.said
}

// ErrorClass returns the error class that operators see.
func (e *programError) ErrorClass() string { return "ExitStatus" }

// withoutWords returns what the log shows of a run's error. It leaves out the program's output, which may
// hold anything, arguments included; it is stored with the job in Redis.
func withoutWords(_ string, err error) string {
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
