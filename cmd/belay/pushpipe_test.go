package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A stream is a push of what comes through a pipe.
type stream struct {
	*house
	cmd  *exec.Cmd
	in   *os.File
	errs bytes.Buffer
	end  func() int // waits for it, and answers the exit status
}

// newStream starts one, through a program that runs another, if there is one.
func newStream(t *testing.T, out *os.File, through ...string) *stream {
	t.Helper()
	s := &stream{house: newHouse(t)}
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = writer.Close() })
	words := slices.Concat(through, []string{binary}, s.at("push", "--file", "-"))
	s.in, s.cmd = writer, exec.Command(words[0], words[1:]...)
	s.cmd.Stdin, s.cmd.Stderr = reader, &s.errs
	if out != nil { // a nil *os.File is no nil
		s.cmd.Stdout = out
	}
	require.NoError(t, s.cmd.Start())
	_ = reader.Close()
	s.end = sync.OnceValue(func() int {
		late := time.AfterFunc(soon, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		_ = s.cmd.Wait()
		return s.cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		s.end()
	})
	return s
}

func (s *stream) write(text string) {
	s.t.Helper()
	_, err := s.in.WriteString(text)
	require.NoError(s.t, err)
}

func (s *stream) awaitStored(n int) {
	s.t.Helper()
	drivertest.Eventually(s.t, func() bool { return s.do("LLEN", s.key("queue:default")) == int64(n) }, soon, 5*time.Millisecond)
}

const aLine = `{"class":"A"}` + "\n"

func TestPushOfAPipe(t *testing.T) {
	t.Parallel()
	t.Run("lines_are_pushed_when_the_pipe_pauses", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, nil)
		s.write(aLine)
		s.awaitStored(1)
		s.write(aLine + "no job\n" + aLine + `{"class":`)
		s.awaitStored(3)
		s.write(`"A"}`)
		require.NoError(t, s.in.Close())
		require.Equal(t, exitFailure, s.end())
		s.awaitStored(4)
		require.Contains(t, s.errs.String(), "line 3: refused: ")
		require.Contains(t, s.errs.String(), "4 queued, 1 refused, 0 unknown, 0 not pushed\n")
	})
	t.Run("refused_lines_do_not_delay_others", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, nil)
		s.write(aLine)
		drivertest.Eventually(t, func() bool {
			s.write("\n")
			return s.do("LLEN", s.key("queue:default")) == int64(1)
		}, soon, 5*time.Millisecond)
	})
	t.Run("a_signal_ends_the_reading_and_no_line_that_was_read_is_lost", func(t *testing.T) {
		t.Parallel()
		for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			s := newStream(t, nil)
			s.write(aLine)
			s.awaitStored(1)
			s.write(strings.Repeat(aLine, 1000) + `{"class":`)
			s.awaitStored(1001)
			for range 2 { // as GNU timeout does
				require.NoError(t, s.cmd.Process.Signal(sig))
				time.Sleep(10 * time.Millisecond) // less than reading takes to end; a pause for two signals to be two
			}
			require.Equal(t, status, s.end(), s.errs.String())
			s.awaitStored(1001)
			require.Contains(t, s.errs.String(), "1001 queued, 0 refused, 0 unknown, 0 not pushed\n")
			require.Contains(t, s.errs.String(), "after line 1001: interrupted")
		}
	})
	t.Run("an_ignored_signal_stays_ignored", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, nil, "sh", "-c", `trap "" INT; exec "$0" "$@"`) // as a shell does for what it starts in the background
		s.write(aLine)
		s.awaitStored(1)
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
		s.write(aLine)
		s.awaitStored(2)
		require.NoError(t, s.in.Close())
		require.Zero(t, s.end(), s.errs.String())
	})
	t.Run("without_a_reader_of_its_output_it_ends_and_reports_the_line", func(t *testing.T) {
		t.Parallel()
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		s := newStream(t, writer)
		_ = writer.Close()
		s.write(aLine)
		require.Equal(t, exitFailure, s.end())
		require.Contains(t, s.errs.String(), "1 queued, 0 refused, 0 unknown, 0 not pushed\n")
		require.Contains(t, s.errs.String(), "nothing after line 1 was pushed")
		s.awaitStored(1)
	})
}

// What a signal finds in the program's own memory is pushed as well: no other program could read it any more.
func TestASignalDoesNotLoseLinesInMemory(t *testing.T) {
	t.Parallel()
	s := newStream(t, nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			if _, err := fmt.Fprintf(s.in, `{"class":"A","jid":"%d"}`+"\n", n); err != nil {
				return
			}
		}
	}()
	drivertest.Eventually(t, func() bool { return s.do("LLEN", s.key("queue:default")).(int64) > 2000 }, soon, time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, s.end())
	<-stopped
	stored := s.do("LLEN", s.key("queue:default")).(int64)
	require.Contains(t, s.errs.String(), fmt.Sprintf("%d queued, 0 refused, 0 unknown, 0 not pushed\n", stored))
	require.Contains(t, s.errs.String(), fmt.Sprintf("after line %d: interrupted", stored))
}
