package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

func TestMain(m *testing.M) { os.Exit(drivertest.Main(m)) }

// patience bounds every wait: far above what anything here takes.
const patience = 30 * time.Second

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) find(pattern string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(regexp.MustCompile(pattern).Find(o.text.Bytes()))
}

func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	require.Eventually(t, func() bool { return o.find(pattern) != "" }, patience, 5*time.Millisecond, pattern)
	return o.find(pattern)
}

func request(t *testing.T, method, url string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}

func TestADeployLosesNoRequestAndNoJob(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t)
	program := filepath.Join(t.TempDir(), "embedded")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	out := &output{}
	cmd := exec.Command(program, "-addr", "127.0.0.1:0", "-redis", redis.URL(), "-drain", "10s") // in which all that comes before its end is asked
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	web := "http://" + out.await(t, `127\.0\.0\.1:\d+`)
	require.Eventually(t, func() bool {
		return request(t, http.MethodGet, web+"/readyz") == http.StatusOK
	}, patience, 5*time.Millisecond)
	status := request(t, http.MethodPost, web+"/users?id=1")
	require.Equal(t, http.StatusOK, status)
	out.await(t, "begin 1")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		return request(t, http.MethodGet, web+"/readyz") == http.StatusServiceUnavailable
	}, patience, 5*time.Millisecond, "the load balancer is notified first")
	status = request(t, http.MethodGet, web+"/healthz")
	require.Equal(t, http.StatusOK, status, "and no probe may kill it")
	status = request(t, http.MethodPost, web+"/users?id=2")
	require.Equal(t, http.StatusOK, status, "requests are served meanwhile")

	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "it does not end")
	}
	require.NotEmpty(t, out.find("welcome 1"), "the job that was running has ended")
	require.Empty(t, out.find("begin 2"))
	waiting, err := redis.Do(t.Context(), "LLEN", "queue:mail")
	require.NoError(t, err)
	require.Equal(t, int64(1), waiting, "what was pushed meanwhile waits for others")
	processes, err := redis.Do(t.Context(), "ZCARD", "belay:alive")
	require.NoError(t, err)
	require.Equal(t, int64(0), processes, "it has taken its leave")
}
