package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// A server is the Redis that is measured: one started for the purpose, or one that the user named.
type server struct {
	url     string
	process *exec.Cmd
	dir     string
}

// startServer starts a redis-server on a free loopback port, without persistence, unless url names one. args
// are added to its command line.
func startServer(ctx context.Context, url string, args ...string) (*server, error) {
	if url != "" {
		return &server{url: url}, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server not found: apt-get install redis-server, or name one with --redis URL")
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "belay-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{url: fmt.Sprintf("redis://127.0.0.1:%s/0", port), dir: dir}
	s.process = exec.CommandContext(ctx, path, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
	}, args...)...)
	s.process.SysProcAttr = diesWithUs()
	if err := s.process.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	err = comesUp(ctx, func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	return s, nil
}

// freePort returns a loopback port without a listener.
func freePort(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close() // only its number was wanted
	return port, err
}

// upWithin is how long a server may take to come up: a busy machine; an idle one needs a tenth of a second.
const upWithin = time.Minute

// comesUp waits until a server answers as try asks it.
func comesUp(ctx context.Context, try func() error) (err error) {
	for deadline := time.Now().Add(upWithin); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err = try(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("did not come up within %v: %w", upWithin, err)
}

// external reports whether --redis named the server.
func (s *server) external() bool { return s.process == nil }

// stop ends the server, unless it is external.
func (s *server) stop() {
	if s.external() {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}
