package main

import (
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

// A screen is belay top, or another command, in a terminal of its own.
type screen struct {
	t        *testing.T
	person   *os.File
	terminal *os.File
	cmd      *exec.Cmd
	printed  buffer
	gone     chan struct{}
	before   *unix.Termios

	columns, height uint16
}

func startScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, gone: make(chan struct{}), columns: 80, height: 24}
	s.person, s.terminal = openTerminal(t)
	s.resize(80, 24)
	s.before = s.modes()
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.terminal, s.terminal, s.terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	go func() { _, _ = s.person.WriteTo(&s.printed) }()
	go func() {
		_ = s.cmd.Wait()
		close(s.gone)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.gone
	})
	return s
}

func (s *screen) resize(columns, lines uint16) {
	s.t.Helper()
	require.NoError(s.t, unix.IoctlSetWinsize(int(s.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}))
}

func (s *screen) modes() *unix.Termios {
	s.t.Helper()
	modes, err := unix.IoctlGetTermios(int(s.terminal.Fd()), unix.TCGETS)
	require.NoError(s.t, err)
	return modes
}

// await waits until the terminal shows a text. Only what changes is printed, so it looks at whole pages: a
// window of another size gets one.
func (s *screen) await(text string) {
	s.t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); {
		since := len(s.printed.String())
		s.columns ^= 1
		s.resize(s.columns, s.height)
		for wait := time.Now().Add(time.Second); time.Now().Before(wait); time.Sleep(5 * time.Millisecond) {
			if strings.Contains(ansi.Strip(s.printed.String()[since:]), text) {
				return
			}
		}
	}
	require.Fail(s.t, "it is not shown", "%q; printed: %q", text, &s.printed)
}

func (s *screen) press(keys string) {
	s.t.Helper()
	_, err := s.person.WriteString(keys)
	require.NoError(s.t, err)
}

func (s *screen) awaitEnd() *os.ProcessState {
	s.t.Helper()
	select {
	case <-s.gone:
	case <-time.After(soon):
		require.Fail(s.t, "it does not end", "printed: %q", &s.printed)
	}
	return s.cmd.ProcessState
}

func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"))
	h.do("SADD", h.key("queues"), "mail")
	s := startScreen(t, h.at("top", "--every", "100ms")...)
	s.await("3 queues 1")
	s.press("3")
	s.await("LATENCY")
	s.press("p")
	s.await("pause queue mail? [y/N]")
	require.Empty(t, h.payloads("SMEMBERS", h.key("paused")))
	s.press("y")
	s.await("mail: paused")
	require.Equal(t, []string{"mail"}, h.payloads("SMEMBERS", h.key("paused")))
	for _, mode := range []string{"9", "1000", "1001", "1002", "1003", "1006"} {
		require.NotContains(t, s.printed.String(), "\x1b[?"+mode+"h", "the mouse stays the terminal's")
	}
	s.press("\r")
	s.await("NEXT JOBS")
	s.press("\x1b")
	s.await("LATENCY")
	s.columns, s.height = 20, 5
	s.await("mail")
	s.press("q")
	require.Zero(t, s.awaitEnd().ExitCode())
	require.Equal(t, s.before, s.modes(), "the terminal is as it was")
	drivertest.Eventually(t, func() bool { return strings.Contains(s.printed.String(), "\x1b[?1049l") }, soon, 5*time.Millisecond)
	require.Contains(t, s.printed.String(), "\x1b[?25h", "the cursor is back")
}

func TestTopMasks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("LPUSH", h.key("queue:mail"), `{"class":"Card","args":["4111-S3cr3t"],"jid":"b7bfa5a4","queue":"mail"}`)
	h.do("SADD", h.key("queues"), "mail")
	s := startScreen(t, h.at("top", "--every", "100ms", "--mask", "Card")...)
	s.await("3 queues 1")
	s.press("3")
	s.await("LATENCY")
	s.press("\r")
	s.await(`["[masked]"]`)
	require.NotContains(t, s.printed.String(), "S3cr3t")
	s.press("q")
	require.Zero(t, s.awaitEnd().ExitCode())
}

func TestTopEndsCleanlyHoweverItIsEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*screen){
		"Ctrl-C": func(s *screen) { s.press("\x03") },
		"TERM":   func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGTERM) },
		"INT":    func(s *screen) { _ = s.cmd.Process.Signal(os.Interrupt) },
		"HUP":    func(s *screen) { _ = s.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			s := startScreen(t, h.at("top")...)
			s.await("dead 0")
			end(s)
			require.Zero(t, s.awaitEnd().ExitCode())
			require.Equal(t, s.before, s.modes())
		})
	}
	t.Run("a_terminal_that_is_closed", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		s := startScreen(t, h.at("top")...)
		s.await("dead 0")
		require.NoError(t, s.terminal.Close())
		require.NoError(t, s.person.Close())
		s.awaitEnd()
	})
}

func TestTopOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			h := privateHouse(t, "--appendonly", "yes")
			h.do("LPUSH", h.key("queue:mail"), deadJob("A", "1"))
			h.do("SADD", h.key("queues"), "mail")
			s := startScreen(t, h.at("top", "--every", "100ms", "--client", client)...)
			s.await("3 queues 1")
			h.server.Kill()
			s.await("Redis cannot be read")
			h.server.Restart(t)
			s.await("q quit")
			s.press("3")
			s.await("mail")
		})
	}
}

// What is watched in a terminal is the page, which fits its window.
func TestStatusWatchInATerminalIsTop(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := startScreen(t, h.at("status", "--watch")...)
	s.await("dead 0")
	s.press("\x03")
	require.Zero(t, s.awaitEnd().ExitCode())
}
