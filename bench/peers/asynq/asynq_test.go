package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measuretest"
	"github.com/belayq/belay/bench/subject"
	"github.com/belayq/belay/internal/drivertest"
)

// startRedis starts a server of the test's own and returns its URL.
func startRedis(t *testing.T) string {
	t.Helper()
	address := drivertest.FreeAddr(t)
	_, port, _ := strings.Cut(address, ":")
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	require.NoError(t, server.Start(), "apt-get install redis-server")
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
	return "redis://" + address + "/0"
}

func TestEveryMeasureEndsWithFigures(t *testing.T) {
	t.Parallel()
	measuretest.EveryMeasure(t, system, startRedis(t))
}

func TestNoJobIsLeftBehind(t *testing.T) {
	t.Parallel()
	url := startRedis(t)
	measuretest.Do(t, system, subject.Task{Measure: "push", URL: url, Jobs: 100})
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	conn := redis.NewClient(options)
	defer func() { _ = conn.Close() }()
	keys, err := conn.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestDefaultsAreMeasuredWhereTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	require.Equal(t, settings{}, choose(subject.Task{Measure: "survivor", Best: true}))
	require.Equal(t, settings{concurrency: 7}, choose(subject.Task{Measure: "victim", Concurrency: 7}))
	require.Zero(t, choose(subject.Task{Measure: "latency", Concurrency: 7}).checkInterval)
	require.Equal(t, checkInterval, choose(subject.Task{Measure: "latency", Best: true}).checkInterval)
}
