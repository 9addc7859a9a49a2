package lua

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These names are Sidekiq's: Ruby's clients, workers and dashboard find nothing under any other.
func TestKeysAreSidekiqs(t *testing.T) {
	t.Parallel()
	k, evening := NewKeys(""), time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("west", -2*3600))
	for want, got := range map[string]string{
		"queues": k.Queues(), "queue:a:b": k.Queue("a:b"), "schedule": k.Schedule(), "retry": k.Retry(), "dead": k.Dead(),
		"paused": k.Paused(), "stat:processed": k.Processed(), "stat:failed": k.Failed(), "processes": k.Processes(),
		"stat:processed:2026-03-02": k.ProcessedOn(evening), "stat:failed:2026-03-02": k.FailedOn(evening),
		"h:1:x": k.Process("h:1:x"), "h:1:x:work": k.Work("h:1:x"), "h:1:x:workers": k.Workers("h:1:x"),
		"h:1:x-signals": k.Signals("h:1:x"), "it-j": k.Iteration("j"),
	} {
		require.Equal(t, want, got)
	}
}

func TestKeysOfOursAreSetApart(t *testing.T) {
	t.Parallel()
	k := NewKeys("{mail}")
	for _, key := range []string{
		k.Alive(), k.Tombstones(), k.Record("h:1:x"), k.Working("q", "h:1:x"), k.Claim("h:1:x"), k.Sweeper(), k.Poller(),
		k.IdempotencyScope("1f", 3), k.Left("j"), k.Periodic(), k.PeriodicDefinitions(), k.PeriodicLast(), k.PeriodicSeen(),
		k.PeriodicUptime(), k.PeriodicRuns("n"), k.Cancelled(), k.Samples(), k.QueueMinute(time.Now()), k.Completed(),
	} {
		require.Regexp(t, `^\{mail\}:belay:`, key)
		require.NotContains(t, key, "lock", "that word is for the keys of unique jobs alone")
	}
	require.Equal(t, "{mail}:queue:q", k.Queue("q"))
}

// With these prefixes, the gem's cleaner would take Belay's keys for lists of dead processes.
func TestPrefixesThatLookLikeGitLabsListsAreRefused(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"working", "working:queue", "a:working", "working:queue:x", "a:working:queue:b"} {
		require.ErrorContains(t, CheckPrefix(prefix), "choose another one", prefix)
	}
	for _, prefix := range []string{"", "shop", "workings", "networking", "working:x", "queue", "{working}"} {
		require.NoError(t, CheckPrefix(prefix), prefix)
	}
}
