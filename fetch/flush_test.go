package fetch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// flushedBeneathAWait is a process that Redis has forgotten, and that a wait of before has brought a job all
// the same.
func flushedBeneathAWait(t *testing.T, open opener) *rig {
	t.Helper()
	server := drivertest.Start(t)
	r := newRigOn(t, open, server.Addr(), "p", 2, "mail")
	r.pump("the wait", func() bool { return r.proxy.Count("BLMOVE") == 1 })
	_, err := server.Do(context.Background(), "FLUSHALL")
	require.NoError(t, err)
	r.push("mail", 1)
	r.pump("the job", func() bool { return len(r.running) == 1 })
	require.Equal(t, lua.StateUnknown, r.beat().State)
	return r
}

// A blocked move survives a FLUSHALL: what it brings before the next beat lies in the list of a process that
// Redis does not know, and must end like any other job.
func TestFlushBeneathAWait(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := flushedBeneathAWait(t, open)
		old := r.session
		r.enter()
		r.end(func(h *Run) job.Outcome { return job.Retried(h.Bytes, time.Second) })
		require.Equal(t, int64(1), r.do("ZCARD", r.keys.Retry()), "not lost")
		require.Empty(t, r.list(r.keys.Working("mail", old.Identity)), "nothing is left in a list that is never read")
	})
}

// The process may be killed before such a job has ended. The janitor looks into the lists of its former
// identity too.
func TestFlushBeneathAWaitAndThenACrash(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := flushedBeneathAWait(t, open)
		r.loop.beQuiet()
		r.record.Formerly, r.record.Beat = r.session.Identity, 20*time.Millisecond
		r.enter()
		r.lapse(r.session.Identity)
		j, session := r.newJanitor()
		r.recover(j, session, func() bool { return len(r.list(r.keys.Queue("mail"))) == 1 })
		require.True(t, r.isTombstoned(r.record.Formerly), "the sweep looks there from now on")
	})
}
