package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
)

// openClient opens the client of that name.
func openClient(name, url string) (driver.Client, error) {
	switch name {
	case "go-redis":
		return goredisdriver.Open(url)
	case "rueidis":
		return rueidisdriver.Open(url)
	default:
		return nil, fmt.Errorf("--client %q: it is go-redis or rueidis", name)
	}
}

// A server is the Redis that is measured: one started for the purpose, or one that the user named.
type server struct {
	url     string
	process *exec.Cmd
	dir     string
}

// startServer starts a redis-server on a free loopback port, without persistence, unless url names one.
func startServer(ctx context.Context, url string) (*server, error) {
	if url != "" {
		return &server{url: url}, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server not found: apt-get install redis-server, or name one with --redis URL")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close() // only its number was wanted
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "belay-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{url: fmt.Sprintf("redis://127.0.0.1:%s/0", port), dir: dir}
	s.process = exec.CommandContext(ctx, path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = conn.Close()
			return s, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server did not come up on port %s within 4s", port)
}

// stop ends the server if it is ours.
func (s *server) stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// cpu is the processor time that Redis has used so far, user and system.
func cpu(ctx context.Context, client driver.Client) (time.Duration, error) {
	reply := client.Do(ctx, driver.Command("INFO", "cpu"))[0]
	if reply.Err != nil {
		return 0, reply.Err
	}
	text, _ := reply.Value.(string)
	var total float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", name, err)
			}
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second)), nil
}

// callsOf reads how often a command was called from the text of INFO commandstats.
func callsOf(stats, command string) int64 {
	for line := range strings.Lines(stats) {
		rest, found := strings.CutPrefix(line, "cmdstat_"+command+":calls=")
		if !found {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return 0
		}
		return calls
	}
	return 0
}
