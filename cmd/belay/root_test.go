package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", exitOK, ""},
		{"--help", exitOK, ""},
		{"version", exitOK, ""},
		{"nosuch", exitUsage, `no command "nosuch"`},
		{"version x", exitUsage, "takes no arguments"},
		{"version --nosuch", exitUsage, "unknown flag: --nosuch"},
		{"status --client jedis", exitUsage, "go-redis or rueidis"},
		{"work", exitUsage, "--exec CLASS=COMMAND"},
		{"push", exitUsage, "give the class"},
		{"push A hello", exitUsage, `'"hello"'`},
		{"push A --retry often", exitUsage, "--retry"},
		{"push A --file x", exitUsage, "--file"},
		{"push A --unique=forever", exitUsage, `it must be until_executing, until_executed or until_expired`},
		{"push A --unique until_forever", exitUsage, `it must be until_executing, until_executed or until_expired`},
		{"push A --unique forever", exitUsage, `argument 1 is not JSON`},
		{"push A --unique=", exitUsage, "unique until when?"},
		{"push A --unique-ttl 1h", exitUsage, "--unique-ttl requires --unique"},
		{"push A --reschedule-once", exitUsage, "--reschedule-once requires --unique"},
		{"push A --including-scheduled", exitUsage, "--including-scheduled requires --unique"},
		{"push A --unique until_executing --reschedule-once", exitUsage, "requires until_executed"},
		{"push A --key=", exitUsage, "--key: the key is empty"},
		{"push A --key-for 1h", exitUsage, "--key-for requires --key or --file"},
		{"push A --key k --key-for 0s", exitUsage, "--key-for: a lock for 0s holds nothing"},
		{"push A --key 0 --redis redis://127.0.0.1:1/0", exitFailure, "is Redis running there?"}, // a key like any other
		{"push A hello --retry often --track 0 --jid=x --in -1s", exitUsage,
			`--track: the time is 0s; leave it out for none; --in -1s: it must not be negative; --retry "often": it must be a number of retries, true or false; argument 1 is not JSON`},
		{"push --file - --expires-in -1s", exitUsage, "push: expires in -1s: it must be at least 1ms"},
		{"push --file - --jid x --wal a=0/1 A", exitUsage, `a "jid"; --wal is for one job: in a file each line may have "wal_locations"; --file gives the classes`},
		{"periodic add n @daily A --queue=", exitUsage, "-q: the name of the queue is empty"},
		{"push --file - --key k", exitUsage, `each line may have a "belay_key"`},
		{"locks find", exitUsage, "give the class of the job"},
		{"locks find A --key k", exitUsage, "--key finds the lock of a key: leave out"},
		{"push A --unique until_executed --unique-ttl 0s", exitUsage, "its TTL must be above 0"},
		{"push A --unique until_executed --unique-ttl 1us", exitUsage, "whole number of milliseconds"},
		{"locks nosuch", exitUsage, `no command "belay locks nosuch"`},
		{"locks --limit -1", exitUsage, "--limit"},
		{"locks release", exitUsage, "give digests"},
		{"push A --at=", exitUsage, "--at: the instant is empty"},
		{"push A --redis=", exitUsage, "--redis: the URL is empty"},
		{"status --redis=", exitUsage, "--redis: the URL is empty"},
		{"demo --redis=", exitUsage, "--redis: the URL is empty"},
		{"work --exec A=true --redis=", exitUsage, "--redis: the URL is empty"},
		{"demo --jobs 0", exitUsage, "--jobs"},
		{"demo-worker", exitUsage, "part of belay demo"},
		{"status --redis redis://127.0.0.1:1/0", exitFailure, "is Redis running there?"},
		{"push A --redis redis://127.0.0.1:1/0", exitFailure, "is Redis running there?"},
		{"demo --redis redis://127.0.0.1:1/0", exitFailure, "is Redis running there?"},
		{"push --file /nowhere/jobs", exitFailure, "no such file"},
	} {
		answer := invoke("", strings.Fields(c.args)...)
		require.Equal(t, c.code, answer.code, "%s: %s", c.args, answer.errs)
		require.Contains(t, answer.errs, c.says, c.args)
		if c.code != exitOK {
			require.Equal(t, 1, strings.Count(answer.errs, "\n"), "one line: %s", answer.errs)
			require.Empty(t, answer.out, c.args)
		}
	}
}

func TestPasswordsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:SECRET@127.0.0.1:1/0", "redis://user:SECRET@127.0.0.1:1/x", "redis://:SECRET#1@127.0.0.1:1/0",
		"redis://:12?SECRET@127.0.0.1:1/0", "redis://:12/SECRET@127.0.0.1:1/0", "redis://:SE%zzCRET@127.0.0.1:1", "://:SECRET@h",
		"http://:SECRET@h", "redis://:SECRET@127.0.0.1:1/0?SECRET=1", ":SECRET@127.0.0.1:1",
	} {
		for _, client := range []string{"go-redis", "rueidis"} {
			for _, args := range [][]string{
				{"status", "--redis", url}, {"push", "A", "--redis", url}, {"demo", "--redis", url}, {"work", "--redis", url},
				{"status", "-redis=" + url}, {"status", "--nosuch=" + url}, {"status", url}, {url},
			} {
				answer := invoke("", append(args, "--client", client)...)
				require.NotZero(t, answer.code)
				require.NotContains(t, answer.out+answer.errs, "SECRET", "%s with %s", args, client)
				require.NotContains(t, answer.errs, "127.0.0.1:12", "%s with %s", args, client)
			}
		}
	}
}

func TestTheEnvironmentHasTheURLOfRedis(t *testing.T) {
	h := newHouse(t)
	t.Setenv("REDIS_URL", h.server.URL())
	require.Zero(t, invoke("", "status", "--prefix", h.prefix).code)
	t.Setenv("BELAY_REDIS_URL", "redis://127.0.0.1:1/0")
	require.Equal(t, exitFailure, invoke("", "status", "--prefix", h.prefix).code, "BELAY_REDIS_URL comes first")
	require.Zero(t, h.invoke("", "status").code, "a flag comes before both")
	require.NotContains(t, invoke("", "status", "--help").out, "127.0.0.1:1/0", "help shows no URL of the environment's")
}

func TestHelpOfEveryCommandIsComplete(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot().Commands() {
		if cmd.Hidden {
			continue
		}
		require.NotEmpty(t, cmd.Example, cmd.Name())
		require.Contains(t, cmd.Long, "Exit status", cmd.Name())
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Contains(t, invoke("", "version").out, belay.Version)
	var answer map[string]string
	require.NoError(t, json.Unmarshal([]byte(invoke("", "version", "--json").out), &answer))
	require.Equal(t, belay.Version, answer["version"])
	require.NotEmpty(t, answer["go"])
	require.NotEmpty(t, answer["platform"])
}
