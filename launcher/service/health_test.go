package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/logbook"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	worker := notRun(t, nil)
	ask := func(method, path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		service.Health(worker).ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
		return recorder
	}
	alive := ask(http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, alive.Code)
	require.Equal(t, `{"ok":true,"reason":"not_running","detail":"Run has not been called"}`+"\n", alive.Body.String())
	ready := ask(http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, ready.Code)
	require.Equal(t, `{"ok":false,"reason":"not_running","detail":"Run has not been called"}`+"\n", ready.Body.String())
	require.Equal(t, "no-store", ready.Header().Get("Cache-Control"))
	require.Equal(t, http.StatusNotFound, ask(http.MethodGet, "/").Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(http.MethodPost, "/readyz").Code)
}

func TestAProcessServesHealthAsLongAsItRuns(t *testing.T) {
	lines, log := io.Pipe()
	worker, _ := build(t, drivertest.Redis(t).URL(), launcher.Config{})
	stop := run(t, service.Process{Worker: worker, HealthAddr: "127.0.0.1:0", Log: slog.New(logbook.JSON(log, slog.LevelDebug))})
	var line struct{ Address, Message string }
	text, err := bufio.NewReader(lines).ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &line))
	require.Equal(t, "serving health checks", line.Message)
	url := "http://" + line.Address + "/healthz"
	answer, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	taken := service.Process{Worker: worker, HealthAddr: line.Address}.Run(context.Background())
	require.ErrorContains(t, taken, "belay: listen for health checks: ")
	stop()
	_, err = http.Get(url)
	require.Error(t, err)
}

func TestIdleConnectionsDoNotDelayProbes(t *testing.T) {
	lines, log := io.Pipe()
	worker, _ := build(t, drivertest.Redis(t).URL(), launcher.Config{})
	run(t, service.Process{Worker: worker, HealthAddr: "127.0.0.1:0", Log: slog.New(logbook.JSON(log, slog.LevelDebug))})
	var line struct{ Address string }
	text, err := bufio.NewReader(lines).ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &line))

	const clients = 300
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i], err = net.Dial("tcp", line.Address)
		require.NoError(t, err)
		defer func() { _ = conns[i].Close() }()
		if i%2 == 0 { // the others connect and ask nothing
			_, _ = io.WriteString(conns[i], "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
		}
	}
	probe := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := probe.Get("http://" + line.Address + "/healthz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	const bound = 64
	drivertest.Eventually(t, func() bool {
		open := 0
		for _, conn := range conns {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := io.Copy(io.Discard, conn)
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // from the connection itself
				open++
			}
		}
		return open <= bound
	}, patience, 10*time.Millisecond)
}
