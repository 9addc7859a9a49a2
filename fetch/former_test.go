package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALostRegistrationTakesNothingFromTheLiving(t *testing.T) {
	t.Parallel()
	r := flushedBeneathAWait(t, clients["go-redis"])
	r.record.Formerly, r.record.Beat = r.session.Identity, 20*time.Millisecond
	lost, err := Register(r.ctx, r.ctx, r.direct, r.keys, r.clock, "rig", r.record) // executed, answer lost
	require.NoError(t, err)
	r.enter() // the second attempt
	r.lapse(lost.Identity)
	j, session := r.newJanitor()
	r.recover(j, session, func() bool {
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
