package drivertest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest/resp"
)

// A Server is a redis-server process of this test process, without persistence unless its arguments say
// otherwise. It ends with the test process, even if that is killed.
type Server struct {
	form
	port    int
	release func() // makes the port free for others

	mu     sync.Mutex
	proc   *os.Process
	exited chan struct{} // closed when proc has been waited for
}

// A form is how a server is started.
type form struct {
	dir  string
	env  []string
	args []string
	// sentinel is the configuration file of a sentinel, which writes what it learns into it; empty for a server
	// with data.
	sentinel string
}

// commandLine returns the arguments of redis-server.
func (f form) commandLine(port int) []string {
	line := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", f.dir}
	if f.sentinel != "" {
		return slices.Concat([]string{f.sentinel, "--sentinel"}, line, f.args)
	}
	line = append(line, "--save", "", "--appendonly", "no", "--enable-debug-command", "local")
	if f.keepsUsers() {
		line = append(line, "--aclfile", f.usersFile())
	}
	return append(line, f.args...)
}

// Roles reports whether programs run as users of Redis that have the permissions of their role, and no others.
func Roles() bool { return os.Getenv("BELAY_ACL") == "1" }

// keepsUsers reports whether ACL SAVE makes users outlive a restart of the server.
func (f form) keepsUsers() bool {
	return Roles() && f.sentinel == "" && !slices.Contains(f.args, "--requirepass")
}

func (f form) usersFile() string { return filepath.Join(f.dir, "users.acl") }

// ready returns the words of the log by which the server says that it accepts connections.
func (f form) ready() string {
	if f.sentinel != "" {
		return "Sentinel ID is"
	}
	return "Ready to accept connections"
}

// startTimeout is how long a redis-server may take to accept connections; on an idle machine it takes 10
// ms.
const startTimeout = 20 * time.Second

// Start runs a private redis-server, with args added to its command line, until the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartWith(t, nil, args...)
}

// StartWith is Start with env, of the form NAME=VALUE, added to the server's environment.
func StartWith(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	return start(t, form{dir: t.TempDir(), env: env, args: args})
}

func start(t testing.TB, f form) *Server {
	t.Helper()
	s, err := launch(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

// programVariable names the server to test with, such as valkey-server. Default: redis-server.
const programVariable = "REDIS_SERVER"

func program() string { return cmp.Or(os.Getenv(programVariable), "redis-server") }

// launch starts a server on a port that was free a moment ago. It tries another port if this one has been
// taken since.
func launch(f form) (*Server, error) {
	if _, err := exec.LookPath(program()); err != nil {
		return nil, fmt.Errorf("%s not found: apt-get install redis-server, or name another server in %s", program(), programVariable)
	}
	var err error
	for range 5 {
		s := &Server{form: f}
		if s.port, s.release, err = reservePort(); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		s.release()
	}
	return nil, err
}

// FreeAddr returns an address on loopback, host:port, on which nothing listens. No other test gets it until
// this one has ended.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, release, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// reservePort returns a TCP port on which nothing listens. It is below those that the system itself chooses,
// for connections and for port 0. No other call returns it before release, in whatever process: it holds the
// UDP port of the same number, which nothing here uses. Without that, the tests that run beside each other in
// an hour draw one port twice, while a server restarts, or where one test wants that nothing listens.
func reservePort() (port int, release func(), err error) {
	const first, end = 10000, 32768
	for range 100 {
		port = first + rand.N(end-first)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var reserved net.PacketConn
		if reserved, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		release = func() { _ = reserved.Close() }
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return port, release, l.Close()
		}
		release()
	}
	return 0, nil, fmt.Errorf("find a free port: %w", err)
}

// start runs the process and returns when it accepts connections.
func (s *Server) start() error {
	if s.keepsUsers() {
		users, err := os.OpenFile(s.usersFile(), os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("make the file of users: %w", err)
		}
		_ = users.Close()
	}
	cmd := exec.Command(program(), s.commandLine(s.port)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = diesWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", program(), err)
	}
	cmd.Stderr = cmd.Stdout // it reports wrong arguments there
	started, exited := make(chan error, 1), make(chan struct{})
	go func() {
		// The parent-death signal is sent when the thread that forked ends, so this goroutine keeps its
		// thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		if err == nil {
			s.mu.Lock()
			s.proc, s.exited = cmd.Process, exited
			s.mu.Unlock()
			err = s.awaitReady(out)
		}
		started <- err
		if cmd.Process != nil {
			_, _ = io.Copy(io.Discard, out) // until it exits
			_ = cmd.Wait()
		}
	}()
	select {
	case err := <-started:
		if err != nil {
			s.Kill()
		}
		return err
	case <-time.After(startTimeout):
		s.Kill()
		return errors.New("redis-server did not accept connections in time")
	}
}

// awaitReady reads the server's log until it says that it accepts connections.
func (s *Server) awaitReady(log io.Reader) error {
	var output strings.Builder
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), s.ready()) {
			return nil
		}
		output.WriteString(lines.Text() + "\n")
	}
	return fmt.Errorf("redis-server ended before it was ready; its output:\n%s", output.String())
}

// Addr returns the server's host:port. Restart keeps it.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's redis:// URL, database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// PID returns the server's process id; Restart changes it.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Pid
}

// Stop freezes the server (SIGSTOP): its sockets stay open and nothing answers until Cont.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Cont continues a frozen server (SIGCONT). It then executes what reached its sockets meanwhile.
func (s *Server) Cont() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.Signal(sig)
	}
}

// Kill ends the server at once (SIGKILL) and returns when it is gone. A second call does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	proc, exited := s.proc, s.exited
	s.mu.Unlock()
	if proc == nil {
		return
	}
	_ = proc.Kill()
	<-exited
}

// end is Kill, and makes the port free for others.
func (s *Server) end() {
	s.Kill()
	s.release()
}

// Restart kills the server and starts it again on the same address: only persisted data is kept.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Do sends one command on a connection of its own and returns nil, a string, an int64 or a []any of these.
func (s *Server) Do(ctx context.Context, words ...string) (any, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	out := bufio.NewWriter(conn) // unbuffered, each word would be a write of its own, and most of a test's CPU time
	_ = proto.Write(out, words)  // Flush returns its error
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("send %s: %w", words[0], err)
	}
	value, err := resp.Read(bufio.NewReader(conn))
	var refused *driver.ServerError
	if err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("read the answer of %s: %w", words[0], err)
	}
	return value, err
}
