package main

import (
	"encoding/json"
	"strings"
	"testing"

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
			answer = run("queues")
			require.Equal(t, exitUsage, answer.code)
			require.Contains(t, answer.errs, "--shard")
			require.Zero(t, run("queues", "--shard", "1").code)
			require.Contains(t, run("queues", "--shard", "7").errs, "the shards are 0, 1, 2")
		})
	}
}
