package integration

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// A full Redis refuses new jobs and is drained of those it holds, the failing ones included; then it takes new
// ones again.
func TestFullRedisIsDrained(t *testing.T) {
	t.Parallel()
	server, dir := recorded(t, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction")
	t.Cleanup(func() { judge(t, server, dir) })
	s := newSite(t, server)
	pusher := s.clientOf(check.RoleProducer)

	receipts, err := pusher.PushMany(t.Context(), func(yield func(client.RawJob) bool) {
		for yield(client.RawJob{Class: "Any", Args: []any{strings.Repeat("x", 1000)}}) {
		}
	})
	require.ErrorIs(t, err, client.ErrFull)
	queued := 0
	for _, receipt := range receipts {
		if receipt.Status == client.StatusQueued {
			queued++
		}
	}
	require.Greater(t, queued, 1000)
	require.Len(t, s.list(s.keys.Queue("default")), queued, "each receipt is true")

	var ran, failed atomic.Int64
	s.run(launcher.Config{Client: s.driverOf(check.RoleWorker)}, func(context.Context, *job.Job) error {
		if ran.Add(1)%10 == 0 {
			failed.Add(1)
			// Not due before the drain has ended, however slow this machine is.
			return retry.In(time.Hour, errors.New("one in ten fails, and its retry must find room"))
		}
		return nil
	})
	eventually(t, "the queue to be drained", func() bool { return s.do("LLEN", s.keys.Queue("default")) == int64(0) })
	// The last ones may be in hand still, and not have failed.
	eventually(t, "the last run", func() bool { return ran.Load() >= int64(queued) })
	eventually(t, "the last settle", func() bool { return s.do("ZCARD", s.keys.Retry()) == failed.Load() })
	require.EqualValues(t, queued, ran.Load())

	_, err = pusher.Push(t.Context(), client.RawJob{Class: "Any"})
	require.NoError(t, err)
	eventually(t, "the new job to be run", func() bool { return ran.Load() == int64(queued)+1 })
}
