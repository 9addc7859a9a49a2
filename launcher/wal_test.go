package launcher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/retry"
)

// push stores a unique job with a position, and refuses a duplicate with another for its sake.
func (r *rig) pushRefusing(rule dedup.Rule, own, left dedup.WAL, extra ...job.Edit) {
	r.t.Helper()
	draft := job.Draft{Class: "C", Queue: "default", JID: job.NewJID(), Extra: append(extra, own.Edit(dedup.FieldWAL))}
	lock, err := rule.Lock(draft)
	require.NoError(r.t, err)
	draft.Extra = append(draft.Extra, lock.Edit())
	push := func(jid string, wal dedup.WAL) string {
		answer, err := r.keys.PushUnique(nil, []lua.NewJob{{
			Queue: "default", Job: draft.Encode(), WAL: wal.Lines(),
			Lock: &lua.Lock{Digest: lock.Digest, Owner: lua.OwnerOf(jid, "C"), Hold: time.Minute},
		}}).Do(r.t.Context(), r.client)
		require.NoError(r.t, err)
		return answer.Holders[0]
	}
	require.Empty(r.t, push(draft.JID, own))
	require.Equal(r.t, draft.JID, push("another", left))
}

func TestPositionsOfARun(t *testing.T) {
	t.Parallel()
	t.Run("are_the_later_of_its_own_and_those_of_duplicates_at_each_run_of_the_job", func(t *testing.T) {
		t.Parallel()
		for _, until := range []dedup.Until{dedup.UntilExecuting, dedup.UntilExecuted} {
			for name, fails := range map[string]error{
				"a failure": retry.In(0, errors.New("on purpose")), "a snooze": retry.Snooze(time.Millisecond), "none": nil,
			} {
				r := oneClient(t)
				r.pushRefusing(dedup.Rule{Until: until}, dedup.WAL{"main": 9 << 32, "ci": 8}, dedup.WAL{"main": 16 << 32, "ci": 7, "geo": 1})
				l := r.build(r.config())
				runs := make(chan dedup.WAL, 3)
				l.Handle("C", func(ctx context.Context, j *job.Job) error {
					require.Equal(t, dedup.WAL{"main": 16 << 32, "ci": 7, "geo": 1}, dedup.ReadRefusedWAL(j))
					runs <- launcher.WAL(ctx)
					if len(runs) == 1 {
						return fails
					}
					return nil
				}, launcher.Class{})
				r.start(l)
				want := map[bool]int{true: 1, false: 2}[fails == nil]
				drivertest.Eventually(t, func() bool {
					return r.counter(r.keys.Processed()) == map[string]string{"a failure": "2", "a snooze": "1", "none": "1"}[name]
				},
					patience, 5*time.Millisecond, name)
				require.Len(t, runs, want, name)
				for range want {
					require.Equal(t, dedup.WAL{"main": 16 << 32, "ci": 8, "geo": 1}, <-runs, "%s, %s", until, name)
				}
			}
		}
	})
	t.Run("are_its_own_where_no_duplicate_was_refused_and_none_outside_of_a_run", func(t *testing.T) {
		t.Parallel()
		r := oneClient(t)
		r.push("C", "[]", dedup.WAL{"main": 9}.Edit(dedup.FieldWAL))
		r.push("C", "[]")
		l := r.build(r.config())
		runs := make(chan dedup.WAL, 2)
		l.Handle("C", func(ctx context.Context, _ *job.Job) error {
			runs <- launcher.WAL(ctx)
			return nil
		}, launcher.Class{})
		r.start(l)
		require.ElementsMatch(t, []dedup.WAL{{"main": 9}, nil}, []dedup.WAL{<-runs, <-runs})
		require.Nil(t, launcher.WAL(t.Context()))
	})
}
