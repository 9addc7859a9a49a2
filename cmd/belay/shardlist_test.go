package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

// Servers are named by --redis, given once for each, or by a list in a variable or in a file.
func TestShardsAreListedByName(t *testing.T) { // not parallel: it sets variables
	names := []string{"a", "b", "c"}
	var servers []*drivertest.Server
	var flags, list []string
	for _, name := range names {
		server := drivertest.Start(t, "--requirepass", "SECRET")
		servers = append(servers, server)
		item := name + "=" + strings.Replace(server.URL(), "redis://", "redis://:SECRET@", 1)
		flags, list = append(flags, "--redis", item), append(list, item)
	}
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	run := func(words string, more ...string) said {
		return invoke("", append(append(strings.Fields(words), "--prefix", prefix), more...)...)
	}
	for range 3 {
		answer := run("push Plain --json", flags...)
		require.Zero(t, answer.code, answer.errs)
		require.Regexp(t, `"shard":"[abc]"`, answer.out)
	}
	shown := run("shards --json", flags...)
	for _, name := range names {
		require.Contains(t, shown.out, fmt.Sprintf(`"name":%q`, name), shown.errs)
	}
	sum := func(answer said) (status inspect.FleetStatus) {
		require.Zero(t, answer.code, answer.errs)
		require.NoError(t, json.Unmarshal([]byte(answer.out), &status), answer.out)
		return status
	}
	status := sum(run("status --json", flags...))
	require.EqualValues(t, 3, status.Enqueued)
	require.Len(t, status.Shards, 3)
	require.Contains(t, run("queues --shard d", flags...).errs, "the shards are a, b, c")

	t.Setenv("REDIS_URL", strings.Join(list, " "))
	require.EqualValues(t, 3, sum(run("status --json")).Enqueued)
	one := sum(run("status --json --shard b"))
	require.Empty(t, one.Shards)

	file := configFile(t, "redis: >-", "  "+list[0], "  "+list[1], "  "+list[2])
	t.Setenv("REDIS_URL", "")
	shown = invoke("", "work", "--print-config", "--config", file)
	require.Contains(t, shown.out, "# redis: a=redis://:hidden@"+servers[0].Addr()+"/0 b=redis://:hidden@"+servers[1].Addr()+"/0 c=")
	require.NotContains(t, shown.out, "SECRET")

	for text, message := range map[string]string{
		"--redis a=redis://:SECRET@h --redis redis://:SECRET@h":      "an item that is not NAME=URL",
		"--redis a=redis://:SECRET@h --redis a=redis://:SECRET@h":    `shard "a": the name is taken by an earlier one`,
		"--redis A=redis://:SECRET@h":                                `shard "A": a name has 1 to 32 of the letters`,
		"--redis a=http://:SECRET@h":                                 "the Redis URL has a scheme",
		"--redis a=redis://:SECRET@h?shards=2":                       "the Redis URL has the parameter shards",
		"--redis a=redis://:SECRET@h?unbound=yes":                    "shard a: the unbound of its Redis URL must be true or false",
		"--redis a=redis://h?closed=1 --redis b=redis://h?closed=1":  "every shard is closed",
		"--redis a=redis://h?unbound=1 --redis b=redis://h?closed=1": "",
	} {
		answer := run("status " + text)
		require.NotContains(t, answer.out+answer.errs, "SECRET", text)
		if message != "" {
			require.Equal(t, exitUsage, answer.code, text)
			require.Contains(t, answer.errs, message, text)
		}
	}
}

// A shard that is unbound in the list has no jobs with a bound key until it is bound.
func TestAListHasUnboundShards(t *testing.T) {
	t.Parallel()
	a, b := drivertest.Start(t), drivertest.Start(t)
	run := func(parameter, words string, more ...string) said {
		return invoke("", append(append(strings.Fields(words), more...), "--redis", "a="+a.URL(), "--redis", "b="+b.URL()+parameter)...)
	}
	for n := range 8 {
		answer := run("?unbound=true", "push Once --json --key", fmt.Sprint("k", n))
		require.Zero(t, answer.code, answer.errs)
		require.Contains(t, answer.out, `"shard":"a"`)
	}
	answer := run("", "push Once --key k")
	require.NotZero(t, answer.code)
	require.Contains(t, answer.errs, "bound shards are recorded as")
	var digests []string
	for n := range 8 {
		var lock struct{ Digest string }
		require.NoError(t, json.Unmarshal([]byte(run("?unbound=true", "locks find --json --key", fmt.Sprint("k", n)).out), &lock))
		digests = append(digests, lock.Digest)
	}
	require.Contains(t, run("", "shards bind a b --yes").errs, "shard a: locks, limits or batches are left: 8 locks")
	require.Zero(t, run("?unbound=true", "locks release", digests...).code)
	answer = run("", "shards bind a b --yes")
	require.Zero(t, answer.code, answer.errs)
	require.Zero(t, run("", "push Once --key k").code)
	require.Contains(t, run("?unbound=true", "push Once --key k2").errs, "bound shards are recorded as")
}

// A closing driver counts that it is closed.
type closingDriver struct {
	driver.Client
	closed chan<- string
	prefix string
}

func (d closingDriver) Close() error {
	d.closed <- d.prefix
	return nil
}

// A command that is about one shard leaves no driver of another one open, also if it is refused.
func TestOneShardLeavesNoOtherOpen(t *testing.T) {
	t.Parallel()
	for shard, want := range map[string][]string{"1": {"{p:0}", "{p:2}"}, "": {"{p:0}", "{p:1}", "{p:2}"}, "7": {"{p:0}", "{p:1}", "{p:2}"}} {
		closing := make(chan string, 10)
		list := client.Shards(3)
		for n := range list {
			list[n].Prefix = list[n].PrefixIn("p")
			list[n].Driver = closingDriver{closed: closing, prefix: list[n].Prefix}
		}
		c, err := client.New(nil, client.Config{Shards: list})
		require.NoError(t, err)
		at := redisFlags{shard: shard}
		space, err := at.only(c)
		if shard == "1" {
			require.NoError(t, err)
			require.Equal(t, "{p:1}", space.Prefix)
		} else {
			require.Error(t, err)
		}
		close(closing)
		var closed []string
		for prefix := range closing {
			closed = append(closed, prefix)
		}
		require.ElementsMatch(t, want, closed)
	}
}
