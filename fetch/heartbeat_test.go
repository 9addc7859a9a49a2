package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheBeatOfACalmProcessStandsForALook(t *testing.T) {
	t.Parallel()
	looks := func(r *rig) bool {
		r.pump("calm", func() bool {
			return r.k.openWaits() == 2 && r.k.inFlight == 0 && r.k.idleSession.Load() != nil
		})
		r.beat()
		return r.k.reconcile.due
	}

	t.Run("for_three_minutes_in_a_row", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "post")
			for range 2 {
				for beat := range 120 {
					require.False(t, looks(r), "heartbeat %d", beat)
				}
				require.True(t, looks(r))
			}
		})
	})

	t.Run("unless_there_is_something_to_see", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "post")
			for _, words := range [][]string{
				{"LPUSH", r.keys.Working("post", r.session.Identity), payload("post")},
				{"LPUSH", r.keys.QuarantineRun(r.session.Identity), payload("post")},
				{"LPUSH", r.keys.Quarantine("mail"), payload("mail")},
				{"SADD", r.keys.Paused(), "post"},
			} {
				require.False(t, looks(r), "before %q", words)
				r.do(words...)
				r.beat()
				require.True(t, r.k.reconcile.due, "%q", words)
				r.do("DEL", words[1])
				r.pump("the look", func() bool { return !r.k.reconcile.due && r.k.inFlight == 0 })
			}
		})
	})

	t.Run("unless_something_has_changed_since_it_was_sent", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "post")
			require.False(t, looks(r))
			calm := r.heartbeat()
			r.push("mail", 1)
			r.pump("the job", func() bool { return len(r.running) == 1 })
			r.k.handleHeartbeat(calm)
			require.True(t, r.k.reconcile.due, "a job is in hand")
			r.end(done)
		})
	})

	t.Run("unless_it_was_asked_of_another_session", func(t *testing.T) {
		t.Parallel()
		eachClient(t, func(t *testing.T, open opener) {
			r := newRig(t, open, 2, "mail", "post")
			require.False(t, looks(r))
			r.enter()
			require.Empty(t, r.k.Watched(r.session))
			r.beat()
			require.True(t, r.k.reconcile.due)
		})
	})
}
