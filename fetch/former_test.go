package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

func TestTheSweepFollowsAFormerNameToo(t *testing.T) {
	t.Parallel()
	r := flushedBeneathAWait(t, clients["go-redis"])
	r.loop.beQuiet()
	r.record.Formerly, r.record.Beat = r.session.Identity, 20*time.Millisecond
	r.enter()
	r.lapse(r.session.Identity)
	// What follow does first; then it is killed.
	answer, err := r.keys.Recover(r.session.Identity, []string{"mail"}, nil, time.Now()).Do(r.ctx, r.direct)
	require.NoError(t, err)
	require.Equal(t, lua.StateDead, answer.State)
	j, life := r.newJanitor()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && len(r.list(r.keys.Queue("mail"))) == 0; time.Sleep(20 * time.Millisecond) {
		pulse, err := life.Beat(r.ctx, r.direct, r.keys, r.clock)
		require.NoError(t, err)
		j.Look(pulse)
		require.NoError(t, j.Pass(r.ctx, life.Identity))
		swept(t, j, life.Identity)
	}
	require.Len(t, r.list(r.keys.Queue("mail")), 1, "it lies in %s, which nobody reads", r.keys.Working("mail", r.record.Formerly))
}

func TestALostRegistrationTakesNothingFromTheLiving(t *testing.T) {
	t.Parallel()
	r := flushedBeneathAWait(t, clients["go-redis"])
	r.record.Formerly, r.record.Beat = r.session.Identity, 20*time.Millisecond
	lost, err := Register(r.ctx, r.ctx, r.direct, r.keys, r.clock, "rig", r.record) // executed, answer lost
	require.NoError(t, err)
	r.enter() // the second attempt
	r.lapse(lost.Identity)
	j, life := r.newJanitor()
	r.recover(j, life, func() bool {
		r.beat()
		stepAll(r)
		return r.isTombstoned(lost.Identity)
	})
	for range 10 {
		r.beat()
		stepAll(r)
		time.Sleep(10 * time.Millisecond)
	}
	require.Len(t, r.running, 1, "the job runs twice in a process that never was away")
}
