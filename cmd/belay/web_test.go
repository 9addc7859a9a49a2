package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWebNeedsUsersBeyondThisMachine(t *testing.T) {
	t.Parallel()
	got := invoke("", "web", "--addr", "0.0.0.0:0")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.errs, "no user is configured")
	require.Contains(t, got.errs, "--auth")
}

func TestWebOnAnAddressInUseSaysSo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	got := invoke("", "web", "--addr", taken.Addr().String())
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.errs, "address already in use")
	require.Contains(t, got.errs, "--addr HOST:PORT chooses another")
	require.NotContains(t, got.errs, "--auth", "a user frees no port")
}

func TestWebMistakes(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, args := range [][]string{
		{"--auth", "alice"}, {"--auth", "alice:"}, {"--auth", "alice:" + empty}, {"--viewer", ":" + empty}, {"--auth", "alice:/nonexistent"},
		{"--base-path", "/a?b"}, {"--origin", "not an origin"}, {"extra"},
	} {
		got := invoke("", append([]string{"web", "--addr", "127.0.0.1:0"}, args...)...)
		require.Equal(t, exitUsage, got.code, "%v: %s", args, got.errs)
	}
}

func TestWebRefusesAUserWithTwoRoles(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("0", 64)), 0o600))
	got := invoke("", "web", "--addr", "127.0.0.1:0", "--base-path", "/a?b", "--viewer", "alice:"+secret, "--auth", "alice:"+secret) // it cannot start
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.errs, "--viewer: user alice was added before: a user has one password and one role")
}

// startWeb starts a belay web. It returns the address that the command names in its first line, and its lines
// after that.
func startWeb(t *testing.T, cmd *exec.Cmd) (url string, lines *bufio.Reader) {
	t.Helper()
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines = bufio.NewReader(errs)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	_, url, found := strings.Cut(strings.TrimSpace(line), "the dashboard is at ")
	require.True(t, found, line)
	return url, lines
}

func TestWebServesUntilTERM(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, fmt.Appendf(nil, "%x  -\n", sha256.Sum256([]byte("long enough"))), 0o600))
	cmd := exec.Command(binary, "web", "--addr", "127.0.0.1:0", "--redis", h.server.URL(), "--prefix", h.prefix, "--auth", "alice:"+secret,
		"--base-path", "jobs")
	url, lines := startWeb(t, cmd)
	require.True(t, strings.HasSuffix(url, "/jobs/"), url)

	ask := func(method, path, host, password string) (int, string) {
		request, err := http.NewRequest(method, url+path, strings.NewReader("name=mail&do=pause"))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth("alice", password)
		request.Host = host
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, string(text)
	}
	status, text := ask("GET", "", "localhost", "long enough")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "This Redis has no jobs and no workers yet.")
	status, text = ask("GET", "metrics", "localhost", "long enough")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "belay_redis_up 1\n")
	require.Contains(t, text, "belay_processes 0\n")
	status, _ = ask("GET", "metrics", "localhost", "wrong")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = ask("GET", "", "localhost", "wrong")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = ask("GET", "", "evil.example.com", "long enough")
	require.Equal(t, http.StatusForbidden, status)
	status, _ = ask("POST", "queue", "localhost", "long enough")
	require.Equal(t, http.StatusSeeOther, status)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Contains(t, string(rest), "act=pause")
	stamps := regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d{3})Z`).FindAllStringSubmatch(string(rest), -1)
	require.Len(t, stamps, strings.Count(string(rest), "\n"), "each line has its time, in UTC")
	require.True(t, slices.ContainsFunc(stamps, func(stamp []string) bool { return stamp[1] != "000" }), "in milliseconds: %s", rest)
	require.Contains(t, string(rest), "user=alice")
	require.NotContains(t, string(rest), "long enough")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// One URL with shards is enough for a dashboard and a scrape of all of them, and --shard is about one.
func TestWebServesAllShardsOrOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.do("SET", "{"+h.prefix+":0}:stat:processed", "10")
	h.do("SET", "{"+h.prefix+":1}:stat:processed", "11")
	for _, test := range []struct {
		args         []string
		has, hasNot  string
		figures      string
		otherFigures string
	}{
		{nil, "<dt>Processed</dt><dd>21</dd>", "no jobs and no workers", `belay_fleet_processed_total{shard="1"} 11`, "belay_fleet_processed_total 11"},
		{[]string{"--shard", "1"}, "<dt>Processed</dt><dd>11</dd>", `aria-label="Shard"`, "belay_fleet_processed_total 11", "shard="},
	} {
		cmd := exec.Command(binary, append([]string{"web", "--addr", "127.0.0.1:0", "--redis", h.server.URL() + "?shards=2", "--prefix", h.prefix}, test.args...)...)
		url, lines := startWeb(t, cmd)
		get := func(path string) string {
			response, err := http.Get(url + path)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return string(text)
		}
		overview, figures := get(""), get("metrics")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_, err := io.ReadAll(lines)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		require.Contains(t, overview, test.has)
		require.NotContains(t, overview, test.hasNot)
		require.Contains(t, figures, test.figures)
		require.NotContains(t, figures, test.otherFigures)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
