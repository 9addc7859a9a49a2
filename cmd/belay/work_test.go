package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A worker is the program working, as a process of its own.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string // where it and its programs are
	errs *buffer
	gone chan struct{}
}

// buffer takes in what a process says while it is looked at.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startWorker starts a worker and waits until it works.
func (h *house) startWorker(t *testing.T, args ...string) *worker {
	t.Helper()
	w := h.prepareWorker(t, args...)
	w.cmd.Stderr = w.errs
	w.start()
	w.awaitLog("working")
	return w
}

func (h *house) prepareWorker(t *testing.T, args ...string) *worker {
	w := &worker{t: t, dir: t.TempDir(), errs: &buffer{}, gone: make(chan struct{})}
	w.cmd = exec.Command(binary, append([]string{"work", "--heartbeat", "200ms", "--log-format", "json", "--prefix", h.prefix}, args...)...)
	w.cmd.Env = append(withoutRedis(os.Environ()), "BELAY_REDIS_URL="+h.server.URL())
	w.cmd.Dir = w.dir
	return w
}

func TestWorkEndsAtOnceIfThePasswordIsWrong(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--requirepass", "right")
	h := newHouse(t)
	for url, part := range map[string]string{
		"redis://:SECRET@" + server.Addr(): "WRONGPASS",
		"redis://" + server.Addr():         "this Redis wants a password",
	} {
		for _, client := range []string{"go-redis", "rueidis"} {
			w := h.prepareWorker(t, "--redis", url, "--client", client, "--exec", "A=true")
			w.cmd.Stderr = w.errs
			w.start()
			require.Equal(t, exitFailure, w.awaitEnd())
			require.Contains(t, w.errs.String(), part)
			require.Contains(t, w.errs.String(), "BELAY_REDIS_URL")
			require.NotContains(t, w.errs.String(), "SECRET")
		}
	}
}

func (w *worker) start() {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Start())
	go func() {
		_ = w.cmd.Wait()
		close(w.gone)
	}()
	w.t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.gone
	})
}

func (w *worker) signal(sig os.Signal) {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(sig))
}

func (w *worker) awaitLog(text string) {
	w.t.Helper()
	drivertest.Eventually(w.t, func() bool { return strings.Contains(w.errs.String(), text) }, soon, 5*time.Millisecond, "log: %q", text)
}

func (w *worker) awaitFile(name string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	drivertest.Eventually(w.t, func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.HasSuffix(string(text), "\n")
	}, soon, 5*time.Millisecond, "file %s; the log:\n%s", name, w.errs)
	return read(w.t, w.dir, name)
}

// awaitEnd waits for the worker's end and answers its exit status.
func (w *worker) awaitEnd() int {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(soon):
		w.t.Fatalf("the worker does not end; its log:\n%s", w.errs)
	}
	return w.cmd.ProcessState.ExitCode()
}

func (h *house) push(args ...string) {
	h.t.Helper()
	answer := h.invoke("", append([]string{"push"}, args...)...)
	require.Zero(h.t, answer.code, answer.errs)
}

func TestCapsulesOfAWorkerAreShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.startWorker(t, "-c", "7", "-q", "mail,2", "-q", "calls,1", "--exec", "*=true",
		"--config", configFile(t, "capsules: {unsafe: {concurrency: 1, queues: [thumbs, previews]}}"))
	drivertest.Eventually(t, func() bool {
		return strings.Contains(h.invoke("", "processes").out, "default (7, weighted): mail*2,calls*1; unsafe (1, strict): thumbs,previews  ")
	}, soon, 10*time.Millisecond, "%s", h.invoke("", "processes").out)
	require.Contains(t, h.invoke("", "processes", "--json").out,
		`{"name":"unsafe","concurrency":1,"mode":"strict","queues":["thumbs","previews"],"weights":{"previews":0,"thumbs":0}}]`)
}

func TestWork(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run("runs_jobs_as_its_own_children_with_"+client, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			w := h.startWorker(t, "--client", client, "-q", "mail", "--exec",
				`*=sh -c 'echo "$PPID $BELAY_CLASS $BELAY_QUEUE $BELAY_REDIS_URL$REDIS_URL $(cat)" >out'`)
			h.push("Mail::Welcome", "1.0", `"SECRETARG"`, "-q", "mail")
			require.Contains(t, w.awaitFile("out"), `Mail::Welcome mail  [1.0,"SECRETARG"]`)
			require.Regexp(t, `^`+itoa(w.cmd.Process.Pid)+` `, w.awaitFile("out"))
			w.signal(syscall.SIGTERM)
			require.Zero(t, w.awaitEnd())
			require.NotContains(t, w.errs.String(), "SECRETARG")
		})
	}
	t.Run("a_failure_is_stored_with_its_message_and_logged_without_it", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--exec", "Bad=sh -c 'echo SECRETSAID >&2; exit 3'")
		h.push("Bad", "--retry", "1")
		w.awaitLog("run failed")
		drivertest.Eventually(t, func() bool { return h.do("ZCARD", h.key("retry")) == int64(1) }, soon, 5*time.Millisecond)
		require.Contains(t, h.payloads("ZRANGE", h.key("retry"), "0", "-1")[0], `"error_message":"exit status 3: SECRETSAID"`)
		require.NotContains(t, w.errs.String(), "SECRETSAID")
	})
	t.Run("TERM_lets_running_jobs_finish", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--exec", "A=sh -c 'echo >begun; while [ ! -e go ]; do sleep 0.02; done; echo >ended'")
		h.push("A")
		w.awaitFile("begun")
		w.signal(syscall.SIGTERM)
		w.awaitLog("SIGTERM")
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600))
		require.Zero(t, w.awaitEnd())
		w.awaitFile("ended")
		require.Equal(t, int64(0), h.do("LLEN", h.key("queue:default")))
		require.Equal(t, "1", h.do("GET", h.key("stat:processed")))
	})
	for name, second := range map[string]bool{"the_timeout_requeues": false, "a_second_signal_requeues_at_once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			timeout := "300ms"
			if second {
				timeout = "10m"
			}
			w := h.startWorker(t, "--shutdown-timeout", timeout, "--exec", "A=sh -c 'echo $$ >pid; sleep 600'")
			h.push("A", "1.0")
			w.awaitFile("pid")
			w.signal(syscall.SIGINT)
			if second {
				w.awaitLog("SIGINT")
				w.signal(syscall.SIGTERM)
			}
			require.Zero(t, w.awaitEnd())
			drivertest.Eventually(t, func() bool { return dead(pidIn(t, w.dir)) }, soon, 5*time.Millisecond, "its program is gone with it")
			back := h.payloads("LRANGE", h.key("queue:default"), "0", "-1")
			require.Len(t, back, 1)
			require.NotContains(t, back[0], "error_message")
			require.Nil(t, h.do("GET", h.key("stat:processed")), "nothing is counted")
		})
	}
	t.Run("a_program_that_exceeds_its_timeout_is_ended_and_has_failed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--job-timeout", "10m", "--exec", "A,timeout=50ms=sh -c 'trap \"\" TERM; echo $$ >pid; sleep 600; exit 0'")
		h.push("A")
		w.awaitFile("pid")
		drivertest.Eventually(t, func() bool { return len(h.payloads("ZRANGE", h.key("retry"), "0", "-1")) == 1 }, soon, 5*time.Millisecond)
		require.Contains(t, h.payloads("ZRANGE", h.key("retry"), "0", "-1")[0], `"error_message":"timed out after 50ms","error_class":"Timeout"`)
		require.True(t, dead(pidIn(t, w.dir)), "by SIGKILL: it ignores SIGTERM")
	})
	t.Run("programs_die_with_a_worker_that_is_killed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.startWorker(t, "--exec", "A=sh -c 'echo $$ >pid; while :; do sleep 0.1; done'")
		h.push("A")
		w.awaitFile("pid")
		w.signal(syscall.SIGKILL)
		w.awaitEnd()
		drivertest.Eventually(t, func() bool { return dead(pidIn(t, w.dir)) }, soon, 5*time.Millisecond)
	})
	t.Run("TERM_ends_a_worker_that_waits_for_redis", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		w := h.prepareWorker(t, "--redis", "redis://127.0.0.1:1/0", "--exec", "A=true")
		w.cmd.Stderr = w.errs
		w.start()
		w.awaitLog("redis is away")
		w.signal(syscall.SIGTTIN)
		w.signal(syscall.SIGTERM)
		require.Zero(t, w.awaitEnd())
	})
}

func TestWorkObeysSignals(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.prepareWorker(t, "--logfile", "work.log", "--log-level", "debug", "--exec", "A=sh -c 'echo >begun; while [ ! -e go ]; do sleep 0.02; done'")
	w.start()
	h.push("A")
	w.awaitFile("begun")
	logged := func(name, text string) {
		t.Helper()
		drivertest.Eventually(t, func() bool {
			all, err := os.ReadFile(filepath.Join(w.dir, name))
			return err == nil && strings.Contains(string(all), text)
		}, soon, 5*time.Millisecond, text)
	}
	w.signal(syscall.SIGTTIN)
	logged("work.log", `"message":"running"`)
	logged("work.log", "goroutine ")
	require.NoError(t, os.Rename(filepath.Join(w.dir, "work.log"), filepath.Join(w.dir, "old.log")))
	w.signal(syscall.SIGUSR2)
	logged("work.log", "reopened")
	w.signal(syscall.SIGTSTP)
	logged("work.log", "SIGTSTP")
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600))
	logged("work.log", `"exit":"done"`)
	h.push("A") // quiet: it stays where it is
	w.signal(syscall.SIGUSR1)
	logged("work.log", "SIGUSR1")
	w.signal(syscall.SIGTERM)
	require.Zero(t, w.awaitEnd())
	require.Equal(t, int64(1), h.do("LLEN", h.key("queue:default")))
}

// awaitLog's twin for a worker that only speaks through Redis.
func (h *house) awaitProcessed(n string) {
	h.t.Helper()
	drivertest.Eventually(h.t, func() bool { return h.do("GET", h.key("stat:processed")) == n }, soon, 5*time.Millisecond)
}

func TestAStuckReaderOfTheLogDoesNotStopTheWorker(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"reading": false, "being_there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			w := h.prepareWorker(t, "--log-level", "debug", "--exec", "A=sh -c 'head -c 4000 /dev/zero | tr \\\\0 x'")
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			defer func() { _ = reader.Close() }()
			w.cmd.Stderr = writer
			w.start()
			require.NoError(t, writer.Close())
			_, err = io.ReadFull(reader, make([]byte, 10)) // it has begun
			require.NoError(t, err)
			if closed {
				require.NoError(t, reader.Close())
			}
			for range 40 { // at about 4 kB each, more than a pipe holds
				h.push("A")
			}
			h.awaitProcessed("40")
			w.signal(syscall.SIGTERM)
			require.Zero(t, w.awaitEnd())
		})
	}
}
