package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/peers/measure"
	"github.com/belayq/belay/bench/peers/talk"
)

// startRedis starts a server of the test's own and returns its URL.
func startRedis(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
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

// do runs a task and returns its last event.
func do(t *testing.T, task talk.Task) talk.Event {
	t.Helper()
	line, err := json.Marshal(task)
	require.NoError(t, err)
	var out bytes.Buffer
	wire := talk.Open(strings.NewReader(string(line)+"\ngo\ngo\n"), &out, func() {})
	require.NoError(t, measure.Run(t.Context(), wire, system), task.Measure)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last talk.Event
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, talk.Done, last.Event)
	return last
}

func TestEveryMeasureEndsWithFigures(t *testing.T) {
	t.Parallel()
	url := startRedis(t)
	task := talk.Task{URL: url, Jobs: 500, Concurrency: 5, Producers: 3, Rate: 100, Seconds: 0.5}
	for _, name := range []string{"drain", "enqueue", "bulk", "push"} {
		task.Measure, task.Best = name, false
		require.Positive(t, do(t, task).Seconds, name)
		task.Best = true
		require.Positive(t, do(t, task).Seconds, "%s at its best", name)
	}
	for name, jobs := range map[string]int{"latency": 50, "schedule": 50, "burst": 500} {
		task.Measure, task.Best = name, false
		require.Len(t, do(t, task).Latencies, jobs, name)
	}
}

func TestNoJobIsLeftBehind(t *testing.T) {
	t.Parallel()
	url := startRedis(t)
	do(t, talk.Task{Measure: "push", URL: url, Jobs: 100})
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
	require.Equal(t, settings{}, choose(talk.Task{Measure: "survivor", Best: true}))
	require.Equal(t, settings{concurrency: 7}, choose(talk.Task{Measure: "victim", Concurrency: 7}))
	require.Zero(t, choose(talk.Task{Measure: "latency", Concurrency: 7}).checkInterval)
	require.Equal(t, checkInterval, choose(talk.Task{Measure: "latency", Best: true}).checkInterval)
}
