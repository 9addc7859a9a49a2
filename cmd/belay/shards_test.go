package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
)

// One URL with shards is enough to push, to see the sum, to find a job and to look at one shard.
func TestAURLWithShards(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			url := drivertest.Redis(t).URL() + "?shards=3"
			prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
			run := func(args ...string) said {
				return invoke("", append(args, "--redis", url, "--prefix", prefix, "--client", client)...)
			}
			receipts := make(map[string]string)
			for range 3 {
				answer := run("push", "Plain", "--json")
				require.Zero(t, answer.code, answer.errs)
				var receipt struct{ JID, Shard string }
				require.NoError(t, json.Unmarshal([]byte(answer.out), &receipt))
				receipts[receipt.JID] = receipt.Shard
			}
			var status inspect.FleetStatus
			answer := run("status", "--json")
			require.Zero(t, answer.code, answer.errs)
			require.NoError(t, json.Unmarshal([]byte(answer.out), &status))
			require.EqualValues(t, 3, status.Enqueued)
			require.Len(t, status.Shards, 3)
			require.Contains(t, run("status").out, "SHARD")
			for jid, shard := range receipts {
				require.Contains(t, run("find", jid).out, "on shard "+shard)
				require.Contains(t, run("cancel", jid).out, "on shard "+shard)
			}
			require.Zero(t, run("queues", "--shard", "1").code)
			require.Contains(t, run("queues", "--shard", "7").errs, "the shards are 0, 1, 2")
		})
	}
}

// A shard is empty when its jobs are gone, and others are bound only when no lock is left in any.
func TestShardsAreCheckedAndBound(t *testing.T) {
	t.Parallel()
	redis := drivertest.Redis(t)
	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	with := func(n int, args ...string) said {
		return invoke("", append(args, "--redis", fmt.Sprintf("%s?shards=%d", redis.URL(), n), "--prefix", prefix)...)
	}
	checks := func(n int, args ...string) []inspect.ShardCheck {
		var all []inspect.ShardCheck
		lines := json.NewDecoder(strings.NewReader(with(n, append(args, "--json")...).out))
		for lines.More() {
			var check inspect.ShardCheck
			require.NoError(t, lines.Decode(&check))
			all = append(all, check)
		}
		return all
	}
	require.Contains(t, with(2, "shards").out, "new")
	var locked, plain struct{ JID, Shard string }
	require.NoError(t, json.Unmarshal([]byte(with(2, "push", "Once", "--key", "k", "--json").out), &locked))
	for plain.Shard == "" || plain.Shard == locked.Shard {
		require.NoError(t, json.Unmarshal([]byte(with(2, "push", "Plain", "--json").out), &plain))
	}
	var left []int64
	for _, check := range checks(2, "shards") {
		require.Empty(t, check.Problem)
		require.Equal(t, []string{"0", "1"}, check.BoundShards)
		left = append(left, check.Left.Locks)
		require.Positive(t, check.Left.Queued)
	}
	require.ElementsMatch(t, []int64{0, 1}, left)

	require.Zero(t, with(2, "shards", "check").code, "without a name, jobs are no problem")
	for _, shard := range []string{locked.Shard, plain.Shard} {
		answer := with(2, "shards", "check", shard)
		require.Equal(t, exitFailure, answer.code)
		require.Contains(t, answer.errs, "shard "+shard+": it is not empty")
	}
	require.Zero(t, with(2, "shards", "check", "--bound", plain.Shard).code)
	require.Contains(t, with(2, "shards", "check", "--bound").errs, "shard "+locked.Shard+": bound keys are left")
	require.Equal(t, exitUsage, with(2, "shards", "check", "7").code)

	answer := with(3, "shards")
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "bound shards are recorded")
	answer = with(3, "shards", "bind", "0", "1", "2", "--yes")
	require.Equal(t, exitFailure, answer.code)
	require.Contains(t, answer.errs, "1 locks")
	require.Equal(t, []string{"0", "1"}, checks(2, "shards")[0].BoundShards, "nothing has changed")

	digest := strings.Fields(strings.Split(with(2, "locks", "--shard", locked.Shard).out, "\n")[1])[0]
	require.Zero(t, with(2, "locks", "release", digest, "--shard", locked.Shard).code)
	require.Equal(t, exitUsage, with(3, "shards", "bind", "0", "1", "2").code, "without a terminal it needs --yes")
	require.Contains(t, with(3, "shards", "bind", "0", "1").errs, "programs with shards=3 in their URL are refused")
	require.NotContains(t, with(3, "shards", "bind", "0", "1", "2").errs, "are refused")
	answer = with(3, "shards", "bind", "0", "1", "2", "--yes")
	require.Zero(t, answer.code, answer.errs)
	require.Zero(t, with(3, "shards").code)
	require.Equal(t, exitFailure, with(2, "shards").code)
	require.Equal(t, exitFailure, with(2, "push", "Plain").code, "a program with the old list is refused")

	for _, shard := range []string{"0", "1", "2"} {
		require.Zero(t, with(3, "queues", "clear", "default", "--yes", "--shard", shard).code)
	}
	require.Zero(t, with(3, "shards", "check", "0", "1", "2").code)
}

// One worker runs the jobs of all shards of its URL.
func TestAWorkerServesAllShards(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	url := h.server.URL() + "?shards=3"
	h.startWorker(t, "--redis", url, "--exec", "Plain=sh -c 'echo $BELAY_JID >>jids'")
	run := func(args ...string) said { return invoke("", append(args, "--redis", url, "--prefix", h.prefix)...) }
	shards, pushed := make(map[string]bool), 0
	for ; len(shards) < 3 && pushed < 300; pushed++ { // each command begins its turns anywhere
		var receipt struct{ JID, Shard string }
		require.NoError(t, json.Unmarshal([]byte(run("push", "Plain", "--json").out), &receipt))
		shards[receipt.Shard] = true
	}
	require.Len(t, shards, 3)
	drivertest.Eventually(t, func() bool {
		var status inspect.FleetStatus
		return json.Unmarshal([]byte(run("status", "--json").out), &status) == nil && status.Processed == int64(pushed) && status.ProcessCount == 1
	}, soon, 10*time.Millisecond, "all jobs, by one process")

	answer := run("work", "--exec", "A=true", "--shard", "1")
	require.Equal(t, exitUsage, answer.code)
	require.Contains(t, answer.errs, "leave the flag out")
}

func TestShardsPlan(t *testing.T) {
	t.Parallel()
	answer := invoke("", "shards", "plan", "-n", "12", "--prefix", "shop")
	require.Zero(t, answer.code, answer.errs)
	require.Contains(t, answer.out, "{shop:11}")
	var of struct{ Slot, Primary int64 }
	line, _, _ := strings.Cut(invoke("", "shards", "plan", "-n", "1", "--json", "--prefix", "foo").out, "\n")
	require.NoError(t, json.Unmarshal([]byte(line), &of))
	require.Equal(t, of.Slot*3/16384+1, of.Primary)
	require.Equal(t, exitUsage, invoke("", "shards", "plan", "-n", "0").code)
	require.Equal(t, exitUsage, invoke("", "shards", "list", "--redis", "redis://h").code)
}
