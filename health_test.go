package belay_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/internal/drivertest"
)

// readyAt is what /readyz answers.
func readyAt(t *testing.T, server *belay.Server) (status int, reason string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	server.Health().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	var answer struct{ Reason string }
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &answer), recorder.Body)
	return recorder.Code, answer.Reason
}

func TestAServerSaysHowItIs(t *testing.T) {
	t.Parallel()
	server := newServer(t, openShared(t), belay.ServerConfig{Capsules: []belay.Capsule{{Name: "x", Queues: belay.Queues("x")}}})
	server.HandleRaw("A", idle)
	status, reason := readyAt(t, server)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "not_running", reason)
	done := running(t, server)
	drivertest.Eventually(t, func() bool { status, _ := readyAt(t, server); return status == http.StatusOK }, patience, 5*time.Millisecond)
	server.Quiet()
	_, reason = readyAt(t, server)
	require.Equal(t, "quiet", reason)
	server.Stop()
	require.NoError(t, awaitValue(t, "the end", done))
}

func TestAProcessRunsItsServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, openShared(t), belay.ServerConfig{})
	server.HandleRaw("A", idle)
	noMetrics := server.RunProcess(t.Context(), belay.ProcessConfig{MetricsAddr: "127.0.0.1:0"})
	require.ErrorContains(t, noMetrics, "MetricsAddr without Metrics")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.RunProcess(ctx, belay.ProcessConfig{}) }()
	drivertest.Eventually(t, func() bool { status, _ := readyAt(t, server); return status == http.StatusOK }, patience, 5*time.Millisecond)
	stop()
	require.NoError(t, awaitValue(t, "the end", done))
	require.Error(t, server.Run(t.Context()), "it runs once")
}
