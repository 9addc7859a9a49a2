package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belayq/belay/internal/drivertest"
)

// openTerminal makes a terminal: what a person types into the first end is read from the second.
func openTerminal(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return person, terminal
}

// At the question Ctrl-C and TERM end the command at once, and nothing is done.
func TestASignalAtTheQuestionEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"dead clear", "queues delete mail --class A", "processes stop --all"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			h := newHouse(t)
			h.kill(deadJob("A", "1"))
			h.do("LPUSH", h.key("queue:mail"), deadJob("A", "2"))
			person, terminal := openTerminal(t)
			cmd := exec.Command(binary, h.at(strings.Fields(words)...)...)
			cmd.Stdin = terminal
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that Ctrl-C is its
			questions, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			late := time.AfterFunc(soon, func() { _ = cmd.Process.Kill() })
			_, err = bufio.NewReader(questions).ReadString(']')
			require.NoError(t, err)
			if sig == syscall.SIGINT {
				_, err = person.WriteString("\x03")
			} else {
				err = cmd.Process.Signal(sig)
			}
			require.NoError(t, err)
			_ = cmd.Wait()
			late.Stop()
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.Equal(t, sig, status.Signal(), "%s: %v", words, cmd.ProcessState)
			require.Equal(t, int64(1), h.do("ZCARD", h.key("dead")))
			require.Equal(t, int64(1), h.do("LLEN", h.key("queue:mail")))
		}
	}
}

// A person at a terminal is asked, and what is no yes is a no.
func TestDeletingManyJobsAsksAtATerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.kill(deadJob("A", "1"))
	for _, c := range []struct {
		answer, says string
		code         int
	}{{"\n", "nothing was done", exitFailure}, {"n\n", "nothing was done", exitFailure}, {"\x04", "nothing was done", exitFailure}, {"Yes\n", "1 deleted", exitOK}} {
		person, terminal := openTerminal(t)
		_, err := person.WriteString(c.answer)
		require.NoError(t, err)
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(h.at("dead", "clear"), terminal, &out, &errs))
		require.Contains(t, errs.String(), "delete all 1 jobs in dead? [y/N] ")
		require.Contains(t, out.String()+errs.String(), c.says)
	}
	require.Equal(t, int64(0), h.do("ZCARD", h.key("dead")))
}

// A person at a terminal reads why a program failed. A log that is kept is JSON, without what the program said.
func TestWorkLogsForItsReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	words := h.at("work", "--exec", "Bad=sh -c 'echo out of paper >&2; exit 3'")
	h.push("Bad")
	s := startScreen(t, words...)
	drivertest.Eventually(t, func() bool {
		return strings.Contains(ansi.Strip(s.printed.String()), `run failed error="exit status 3: out of paper"`)
	}, soon, 5*time.Millisecond)
	require.Regexp(t, `(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ INF starting `, ansi.Strip(s.printed.String()))
	s.press("\x03")
	require.Zero(t, s.awaitEnd().ExitCode())

	h.push("Bad")
	cmd := exec.Command(binary, words...)
	kept := &buffer{}
	cmd.Stderr = kept
	require.NoError(t, cmd.Start())
	drivertest.Eventually(t, func() bool { return strings.Contains(kept.String(), "run failed") }, soon, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	require.Contains(t, kept.String(), `"error":"exit status 3"`)
	require.NotContains(t, kept.String(), "out of paper")
	for line := range strings.Lines(kept.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

// With shards a person is asked once, about all of them.
func TestACommandOnAllShardsAsksOnce(t *testing.T) {
	t.Parallel()
	h := newShardHouse(t)
	at := func(words string) []string {
		return append(strings.Fields(words), "--redis", h.url, "--prefix", h.prefix)
	}
	for _, c := range []struct {
		answer, says string
		code         int
	}{{"n\n", "nothing was done", exitFailure}, {"y\n", "2  1 deleted", exitOK}} {
		for n := range 3 {
			h.do("ZADD", h.key(n, "dead"), fmt.Sprint(time.Now().Unix()), deadJob("A", fmt.Sprint(n)))
		}
		person, terminal := openTerminal(t)
		_, err := person.WriteString(c.answer)
		require.NoError(t, err)
		var out, errs bytes.Buffer
		require.Equal(t, c.code, run(at("dead clear"), terminal, &out, &errs), errs.String())
		require.Equal(t, 1, strings.Count(errs.String(), "delete all 3 jobs in dead, in all 3 shards? [y/N] "), errs.String())
		require.Contains(t, out.String()+errs.String(), c.says)
	}
	require.Equal(t, int64(0), h.do("ZCARD", h.key(2, "dead")))
}
