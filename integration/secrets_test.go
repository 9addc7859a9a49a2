package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// canary is a password that must not be shown. The URLs of all sites have it, though their servers want none, and no
// program that a test starts prints it. No function has canaryEnd in its name: a dump of stacks shows names.
const (
	canary    = "S3cr3t" + canaryEnd
	canaryEnd = "C4nary"
)

// withPassword is a URL of Redis, or a list of shards with their URLs, with a user, and the canary as the password.
func withPassword(url, user string) string {
	shards := strings.Fields(url)
	for n, shard := range shards {
		scheme, rest, _ := strings.Cut(shard, "://")
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			rest = rest[at+1:]
		}
		shards[n] = scheme + "://" + user + ":" + canary + "@" + rest
	}
	return strings.Join(shards, " ")
}

// secretly runs belay to its end, with more environment, and answers all that it printed and its exit status.
func secretly(t *testing.T, env []string, words ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, belayPath, words...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	require.NoError(t, ctx.Err(), "belay %s does not end", words[0])
	return string(out), cmd.ProcessState.ExitCode()
}

// requireNoCanary holds that the password is in no part of a text, not even the end of it.
func requireNoCanary(t *testing.T, text string, about ...any) {
	t.Helper()
	require.NotContains(t, text, canary, about...)
	require.NotContains(t, text, canaryEnd, about...)
}

// secretWorker runs a worker until done says that it has seen enough, then stops it and answers all that it
// logged.
func secretWorker(t *testing.T, env []string, done func(log string) bool, words ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	read := func() string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
	cmd := exec.Command(belayPath, append([]string{"work", "--log-level", "debug"}, words...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	eventually(t, "the worker to do something", func() bool { return over() || done(read()) })
	if !over() {
		// One that Redis refuses may end by itself at any moment.
		signal := func(what os.Signal) {
			if err := cmd.Process.Signal(what); !errors.Is(err, os.ErrProcessDone) {
				require.NoError(t, err)
			}
		}
		signal(syscall.SIGTTIN)
		eventually(t, "the dump", func() bool { return over() || strings.Contains(read(), "goroutine ") })
		signal(syscall.SIGTERM)
		<-ended
	}
	require.NotEmpty(t, read())
	require.NotContains(t, read(), "DATA RACE")
	return read()
}

// The password of Redis is in no output, no log, and nothing that a program is given.
func TestThePasswordIsSeenNowhere(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--requirepass", canary)
	good := "redis://:" + canary + "@" + server.Addr() + "/0"
	for _, client := range []string{"go-redis", "rueidis"} {
		by := []string{"--client", client, "--prefix", client}
		t.Run(client+"/when all is well", func(t *testing.T) {
			ways := map[string]struct{ env, words []string }{
				"by flag":            {nil, []string{"--redis", good, "--log-format", "json"}},
				"by BELAY_REDIS_URL": {[]string{"BELAY_REDIS_URL=" + good}, []string{"--log-format", "console"}},
				"by REDIS_URL":       {[]string{"REDIS_URL=" + good}, nil},
			}
			for name, way := range ways {
				t.Run(name, func(t *testing.T) { requireSilentSuccess(t, way.env, append(by, way.words...)) })
			}
		})
		t.Run(client+"/when the password is wrong", func(t *testing.T) {
			url := "redis://:" + canary + "Wrong@" + server.Addr() + "/0"
			requireSilentFailure(t, append(by, "--redis", url))
		})
		t.Run(client+"/when the user is unknown", func(t *testing.T) {
			requireSilentFailure(t, append(by, "--redis", "redis://"+canary+":"+canary+"@"+server.Addr()+"/0"))
		})
		t.Run(client+"/when no server listens", func(t *testing.T) {
			requireSilentFailure(t, append(by, "--redis", "redis://:"+canary+"@"+drivertest.FreeAddr(t)+"/0"))
		})
	}
}

// requireSilentSuccess pushes, works and looks, and holds that it works and shows no password.
func requireSilentSuccess(t *testing.T, env, words []string) {
	t.Helper()
	var flags []string // without those of work
	for i := 0; i < len(words); i += 2 {
		if words[i] != "--log-format" {
			flags = append(flags, words[i], words[i+1])
		}
	}
	for _, class := range []string{"Tells", "Fails"} {
		output, code := secretly(t, env, append([]string{"push", class, "1"}, flags...)...)
		require.Zero(t, code, output)
		requireNoCanary(t, output)
	}
	given := filepath.Join(t.TempDir(), "given")
	log := secretWorker(t, env, func(log string) bool {
		text, err := os.ReadFile(given)
		return err == nil && bytes.Contains(text, []byte("BELAY_JID=")) && strings.Contains(log, "run failed")
	}, append(words,
		"--exec", `Tells=sh -c 'cat /proc/$$/environ /proc/$$/cmdline >>"$0"; env; set' `+given,
		"--exec", `Fails=sh -c 'env >&2; exit 1'`)...)
	requireNoCanary(t, log)
	require.Contains(t, log, "stopped")
	text, err := os.ReadFile(given)
	require.NoError(t, err)
	requireNoCanary(t, string(text), "what the program was given")
	for _, command := range [][]string{{"status"}, {"status", "--json"}} {
		output, code := secretly(t, env, append(command, flags...)...)
		require.Zero(t, code, output)
		requireNoCanary(t, output)
	}
}

// requireSilentFailure holds that every command fails and shows no password.
func requireSilentFailure(t *testing.T, flags []string) {
	t.Helper()
	for _, command := range [][]string{{"push", "Job", "1"}, {"status"}, {"status", "--json"}, {"demo", "--json"}} {
		output, code := secretly(t, nil, append(command, flags...)...)
		require.Equal(t, 1, code, output)
		require.NotEmpty(t, output)
		requireNoCanary(t, output, command)
	}
	log := secretWorker(t, nil, func(log string) bool { return strings.Count(log, "\n") >= 1 },
		append(flags, "--exec", "Job=true")...)
	requireNoCanary(t, log)
}

// A URL that cannot be read, or that stands where none belongs, is not repeated: it holds a password.
func TestAWrongURLIsNotRepeated(t *testing.T) {
	t.Parallel()
	urls := []string{
		"redis://:" + canary + "@host:notaport/0",
		"redis://:" + canary + "@127.0.0.1:6379/notadb",
		"redis://:" + canary + "@127.0.0.1:99999/0",
		"redis://:" + canary + "@127.0.0.1:1/-1",
		"redis://:" + canary + "@[::1/0",
		"redis://:" + canary + "%zz@127.0.0.1:1/0",
		"redis://:a%20" + canary + "%@127.0.0.1:1/0",
		"redis://:a b" + canary + "@127.0.0.1:1/0",
		"redis://:a/" + canary + "@127.0.0.1:1/0",
		"redis://:a?" + canary + "@127.0.0.1:1/0",
		"redis://:a#" + canary + "@127.0.0.1:1/0",
		"redis://:a@" + canary + "@127.0.0.1:1/0",
		"redis://:a:" + canary + "@127.0.0.1:1/0",
		"redis://" + canary + ":" + canary + "@/0",
		"redis://:" + canary + "\n@127.0.0.1:1/0",
		"redis://:" + canary + "\x7f@127.0.0.1:1/0",
		"redis://127.0.0.1:1/0?password=" + canary,
		"redis://127.0.0.1:1/" + canary,
		"redis://:" + canary,
		"redis:///" + canary,
		"redis:" + canary + "@127.0.0.1:1/0",
		"http://user:" + canary + "@127.0.0.1:1/",
		"redis ://:" + canary + "@127.0.0.1:1/",
		"unix://user:" + canary + "@/nowhere.sock?db=x",
		"unix://:" + canary + "@/nowhere.sock",
		"://" + canary,
		":" + canary + "@127.0.0.1:1",
		canary + "@127.0.0.1:1/0",
	}
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			for _, url := range urls {
				for _, words := range [][]string{
					{"status", "--redis", url}, {"push", "Job", "1", "--redis=" + url}, {"demo", "--json", "--redis", url},
				} {
					output, code := secretly(t, nil, append(words, "--client", client)...)
					require.NotZero(t, code, "%q", url)
					requireNoCanary(t, output, url)
					require.Equal(t, 1, strings.Count(strings.TrimSpace(output), "\n")+1, "one line for %q: %s", url, output)
				}
				output, code := secretly(t, []string{"BELAY_REDIS_URL=" + url}, "status", "--client", client)
				require.NotZero(t, code, "%q", url)
				requireNoCanary(t, output, url)
			}
		})
	}
	t.Run("where none belongs", func(t *testing.T) {
		url := "redis://:" + canary + "@127.0.0.1:1/0"
		for _, words := range [][]string{
			{url}, {"status", url}, {"work", url}, {"version", url}, {"demo", url}, {"push", "Job", url}, {"status", "--redi", url},
			{"status", "--redi=" + url}, {"work", "--client", url, "--exec", "A=true"}, {"work", "-q", url + ",x", "--exec", "A=true"},
			{"work", "--exec", "A=true", "--heartbeat", url}, {"work", "--exec", url}, {"work", "--exec", "A=" + url},
			{"work", "--exec", "A=true", "--log-level", url}, {"work", "--exec", "A=true", "--retry-formula", url},
			{"push", "Job", "--retry", url}, {"push", "--file", url}, {"--redis"}, {"status", "-r", url},
		} {
			output, code := secretly(t, nil, words...)
			require.NotZero(t, code, "%q", words)
			requireNoCanary(t, output, words)
		}
	})
}
