package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

func TestWorkServesHealthChecks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	w := h.startWorker(t, "--health-addr", "127.0.0.1:0", "--exec", "A=true")
	address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(w.errs.String())
	require.NotNil(t, address, w.errs.String())
	status := func(path string) int {
		response, err := http.Get("http://" + address[1] + path)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode
	}
	drivertest.Eventually(t, func() bool { return status("/readyz") == http.StatusOK }, soon, 5*time.Millisecond)
	require.Equal(t, http.StatusNotFound, status("/"))
	w.signal(syscall.SIGTSTP)
	drivertest.Eventually(t, func() bool { return status("/readyz") == http.StatusServiceUnavailable }, soon, 5*time.Millisecond)
	require.Equal(t, http.StatusOK, status("/healthz"))

	answer := h.invoke("", "work", "--health-addr", address[1], "--exec", "A=true")
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "listen for health checks")
}

func TestWorkServesMetrics(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"flag": {"--metrics", "127.0.0.1:0"},
		"file": {"--config", configFile(t, "metrics: 127.0.0.1:0")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			w := h.startWorker(t, append(args, "-q", "mail", "--exec", "A=true")...)
			address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(w.errs.String())
			require.NotNil(t, address, w.errs.String())
			get := func(path string) (int, string) {
				response, err := http.Get("http://" + address[1] + path)
				require.NoError(t, err)
				defer func() { _ = response.Body.Close() }()
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				return response.StatusCode, string(text)
			}
			h.push("A", "-q", "mail")
			drivertest.Eventually(t, func() bool {
				status, text := get("/metrics")
				return status == http.StatusOK && strings.Contains(text, `belay_jobs_total{class="A",outcome="done",queue="mail"} 1`)
			}, soon, 5*time.Millisecond)
			_, text := get("/metrics")
			for _, line := range []string{"belay_redis_up 1\n", `belay_queue_jobs{queue="mail"} 0`, "belay_fleet_processed_total 1\n", "go_goroutines "} {
				require.Contains(t, text, line)
			}
			for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound} {
				status, _ := get(path)
				require.Equal(t, want, status, path)
			}
			answer := h.invoke("", "work", "--metrics", address[1], "--exec", "A=true")
			require.Equal(t, exitFailure, answer.code)
			require.Contains(t, answer.errs, "listen for metrics")
		})
	}
}

func TestWorkIsAServiceAndItsProgramsAreNot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir, err := os.MkdirTemp("", "belay") // a test's own may be longer than a socket's name can be
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))

	w := h.prepareWorker(t, "--exec", `A=sh -c 'echo "[$NOTIFY_SOCKET$WATCHDOG_USEC]" >out'`)
	w.cmd.Env = append(w.cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=30000000")
	w.cmd.Stderr = w.errs
	w.start()
	received := ""
	hear := func(line string) {
		t.Helper()
		for message := make([]byte, 4096); !strings.Contains(received, line); {
			n, err := conn.Read(message)
			require.NoError(t, err, "systemd never received %q, only %q", line, received)
			received += string(message[:n]) + "\n"
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	h.push("A")
	require.Equal(t, "[]\n", w.awaitFile("out"))
	w.signal(syscall.SIGTERM)
	hear("STOPPING=1")
	require.Zero(t, w.awaitEnd())
}
