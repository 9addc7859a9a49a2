package service_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
)

// systemd is one that listens.
type systemd struct {
	mu       sync.Mutex
	received []string
}

func listenAsSystemd(t *testing.T, watchdog time.Duration, pid int) *systemd {
	t.Helper()
	dir, err := os.MkdirTemp("", "belay") // a test's own may be longer than a socket's name can be
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return listenAt(t, filepath.Join(dir, "notify"), watchdog, pid)
}

func listenAt(t *testing.T, socket string, watchdog time.Duration, pid int) *systemd {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(pid))
	s := &systemd{}
	go func() {
		message := make([]byte, 4096)
		for {
			n, err := conn.Read(message)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.received = append(s.received, strings.Split(string(message[:n]), "\n")...)
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *systemd) count(line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, got := range s.received {
		if got == line {
			count++
		}
	}
	return count
}

func (s *systemd) await(t *testing.T, line string, atLeast int) {
	t.Helper()
	drivertest.Eventually(t, func() bool { return s.count(line) >= atLeast }, patience, 5*time.Millisecond, "systemd never received %q", line)
}

func TestSystemd(t *testing.T) {
	t.Run("gets READY, pings, the status and STOPPING", func(t *testing.T) {
		systemd := listenAsSystemd(t, 100*time.Millisecond, os.Getpid())
		worker, client := build(t, drivertest.Redis(t).URL(), launcher.Config{})
		began, goOn := make(chan bool), make(chan bool)
		worker.Handle("A", func(context.Context, *job.Job) error { close(began); <-goOn; return nil }, launcher.Class{})
		stop := run(t, service.Process{Worker: worker})
		systemd.await(t, "READY=1", 1)
		require.NotEmpty(t, worker.Identity(), "and not before it is registered")
		systemd.await(t, "STATUS=0 of 25 busy", 1)
		systemd.await(t, "WATCHDOG=1", 3)
		require.Empty(t, os.Getenv("NOTIFY_SOCKET")+os.Getenv("WATCHDOG_USEC")+os.Getenv("WATCHDOG_PID"), "programs are not the service")

		push(t, client, "A")
		await(t, "the job", began)
		systemd.await(t, "STATUS=1 of 25 busy", 1)
		worker.Quiet()
		systemd.await(t, "STATUS=quiet, 1 of 25 busy", 1)
		require.Zero(t, systemd.count("STOPPING=1"))
		worker.Stop()
		systemd.await(t, "STOPPING=1", 1)
		systemd.await(t, "WATCHDOG=1", systemd.count("WATCHDOG=1")+2) // for as long as the stop takes
		close(goOn)
		stop()
		require.Equal(t, 1, systemd.count("READY=1"))
	})

	if runtime.GOOS == "linux" { // no other system has abstract sockets
		t.Run("gets READY and the status by an abstract socket", func(t *testing.T) {
			systemd := listenAt(t, fmt.Sprintf("@belay-%d", os.Getpid()), 0, os.Getpid())
			worker, _ := build(t, drivertest.Redis(t).URL(), launcher.Config{})
			stop := run(t, service.Process{Worker: worker})
			systemd.await(t, "READY=1", 1)
			systemd.await(t, "STATUS=0 of 25 busy", 1)
			stop()
			systemd.await(t, "STOPPING=1", 1)
			require.Zero(t, systemd.count("WATCHDOG=1"))
		})
	}

	t.Run("gets pings during an outage", func(t *testing.T) {
		systemd := listenAsSystemd(t, 100*time.Millisecond, os.Getpid())
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		worker, _ := build(t, proxy.URL(), launcher.Config{Beat: 50 * time.Millisecond, TTL: 400 * time.Millisecond})
		stop := run(t, service.Process{Worker: worker})
		systemd.await(t, "READY=1", 1)
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
		proxy.CloseConns()
		systemd.await(t, "STATUS=redis away, 0 of 25 busy", 1)
		systemd.await(t, "WATCHDOG=1", systemd.count("WATCHDOG=1")+2)
		proxy.Clear()
		stop()
	})

	t.Run("gets EXTEND_TIMEOUT while Redis has not answered, and no pings for another process' watchdog", func(t *testing.T) {
		systemd := listenAsSystemd(t, 100*time.Millisecond, os.Getpid()+1)
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		worker, _ := build(t, proxy.URL(), launcher.Config{})
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Do: faultproxy.Close()})
		proxy.CloseConns()
		stop := run(t, service.Process{Worker: worker})
		systemd.await(t, "EXTEND_TIMEOUT_USEC=30000000", 1)
		systemd.await(t, "STATUS=not registered, 0 of 25 busy", 1)
		require.Zero(t, systemd.count("READY=1"))
		proxy.Clear()
		systemd.await(t, "READY=1", 1)
		stop()
		require.Zero(t, systemd.count("WATCHDOG=1"))
	})
}
