package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/lua"
)

// A secretPlace is a Redis with a secret password, and the URL that programs get in their environment.
type secretPlace struct {
	server func() *drivertest.Server // which an outage of another test may have replaced
	url    string
	// denied is the URL with a wrong password, whose text has the secret one too.
	denied string
	// password is the secret one. No other test has it: its place is the machine's list of processes too.
	password string
}

// secretPlaces are a server whose password is in the URL, and one behind sentinels with passwords in files.
func secretPlaces(t *testing.T) map[string]secretPlace {
	t.Helper()
	secret := newJID() + canary
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		return path
	}
	admit := func(server *drivertest.Server, user string) {
		_, err := server.Do(t.Context(), "ACL", "SETUSER", user, "on", ">"+secret, "~*", "&*", "+@all")
		require.NoError(t, err)
	}
	single, watched := drivertest.Start(t), drivertest.StartSentinel(t)
	admit(single, "app")
	for _, server := range watched.Servers {
		admit(server, "app")
	}
	for _, sentinel := range watched.Sentinels {
		admit(sentinel, "watcher")
	}
	behind := func(password string) string {
		return strings.Replace(watched.URL(), "://", "://app@", 1) + "?password_file=" + file(password) + "&sentinel_user=watcher&sentinel_password_file=" + file(secret)
	}
	direct := func(password string) string { return "redis://app:" + password + "@" + single.Addr() + "/0" }
	return map[string]secretPlace{
		"in the URL": {func() *drivertest.Server { return single }, direct(secret), direct("not" + secret), secret},
		"in files":   {watched.Primary, behind(secret), behind("not" + secret), secret},
	}
}

// Whatever programs do with a secret password, it is in nothing that they print, serve, store or pass on: neither
// when all is well, nor with a wrong password, nor while Redis is away.
func TestASecretIsInNothingThatProgramsShow(t *testing.T) {
	t.Parallel()
	for name, place := range secretPlaces(t) {
		for _, client := range []string{"go-redis", "rueidis"} {
			t.Run(name+", "+client, func(t *testing.T) {
				env := []string{"BELAY_REDIS_URL=" + place.url, "BELAY_CLIENT=" + client, "BELAY_PREFIX=" + client}
				requireSilentLife(t, place, env, lua.NewKeys(client))
				env[0] = "BELAY_REDIS_URL=" + place.denied
				for _, line := range []string{"push A 1", "status", "find 1", "check", "work --exec A=true", "web --addr 127.0.0.1:0"} {
					out, errs, code := runBelay(t, env, strings.Fields(line)...)
					require.Equal(t, 1, code, "%s: %s", line, errs)
					requireNoCanary(t, out+errs, line)
				}
			})
		}
	}
}

// requireSilentLife has programs of all kinds run, and look at each other, with the password in their environment.
func requireSilentLife(t *testing.T, place secretPlace, env []string, keys lua.Keys) {
	t.Helper()
	server := place.server()
	do := func(words ...string) string {
		answer, err := server.Do(t.Context(), words...)
		require.NoError(t, err)
		return fmt.Sprint(answer)
	}
	addr := drivertest.FreeAddr(t)
	shown := secretProgram(t, env, "web", "--addr", addr)
	health := drivertest.FreeAddr(t)
	worker := secretProgram(t, env, "work", "--log-level", "debug", "--exec", "Job=sleep 60", "--exec", "Bad=false", "--heartbeat", "100ms",
		"--ttl", "1s", "--metrics", health)
	eventually(t, "the worker", func() bool { return strings.Contains(worker(), `"working"`) })
	for _, line := range []string{"push Job 1 --jid 1 --track 1h", "push Bad 1 --retry 0"} {
		out, errs, code := runBelay(t, env, strings.Fields(line)...)
		require.Zero(t, code, errs)
		requireNoCanary(t, out+errs, line)
	}
	eventually(t, "the failure", func() bool { return do("ZCARD", keys.Dead()) == "1" })
	for _, line := range []string{
		"status", "status --json", "find 1", "find 1 --json", "find --class Job", "queues --json", "processes --json", "dead --json", "classes", "locks", "check", "check --json",
		"check --acl worker --user w", "periodic", "cancel 1",
	} {
		out, errs, _ := runBelay(t, env, strings.Fields(line)...)
		requireNoCanary(t, out+errs, line)
	}
	look := func(url string) {
		answer, err := http.Get("http://" + url)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		requireNoCanary(t, string(body)+fmt.Sprint(answer.Header), url)
	}
	for _, page := range []string{"", "busy", "queues", "queue?name=default", "dead", "job?in=dead", "redis", "classes", "metrics", "healthz", "nowhere"} {
		look(addr + "/" + page)
	}
	look(health + "/metrics")
	requireNoCanary(t, do("CLIENT", "LIST"))
	require.Empty(t, processesWith(t, place.password), "a command line has the password")
	for _, key := range []string{keys.Process(identityIn(worker())), keys.Record(identityIn(worker()))} {
		requireNoCanary(t, do("HGETALL", key), key)
	}

	// An outage, seen by all of them.
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	server.Stop()
	eventually(t, "the outage", func() bool { return strings.Contains(worker(), "redis is away") })
	out, errs, _ := runBelay(t, env, "status")
	requireNoCanary(t, out+errs)
	look(health + "/readyz")
	look(addr + "/")
	server.Cont()
	eventually(t, "its end", func() bool { return strings.Contains(worker(), "redis is back") })
	requireNoCanary(t, worker()+shown())
}

// identityIn is the identity of a worker by its log.
func identityIn(log string) string {
	_, rest, _ := strings.Cut(log, `"identity":"`)
	identity, _, _ := strings.Cut(rest, `"`)
	return identity
}

// secretProgram starts belay with more environment, until the test ends, and returns what reads all that it has
// printed.
func secretProgram(t *testing.T, env []string, words ...string) (printed func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "printed")
	file, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	cmd := exec.Command(belayPath, words...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return func() string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
}
