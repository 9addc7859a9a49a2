package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// outcomes has one outcome for each exit.
var outcomes = map[job.Exit]job.Outcome{
	job.ExitDone: job.Done(), job.ExitRetry: job.Retried("p", 0), job.ExitDead: job.Died("p"),
	job.ExitDiscarded: job.Discarded(true), job.ExitCancelled: job.Cancelled(), job.ExitExpired: job.Expired(false),
	job.ExitSnoozed: job.Snoozed("p", 0), job.ExitRequeued: job.Requeued(), job.ExitWaits: job.Waits(0),
}

func TestTheStateOfAJobStaysUnlessItsExitForgetsIt(t *testing.T) {
	t.Parallel()
	for _, exit := range job.Exits {
		r := &Run{Bytes: payload("mail"), outcome: outcomes[exit]}
		require.Equal(t, exit, r.outcome.Exit())
		parsed, err := job.Parse(r.Bytes)
		require.NoError(t, err)
		saved := r.Saved(parsed)
		saved.exists = true
		saved.Set(lua.FieldCursor, "17")
		state := new(Keyspace).stateAtEnd(r)
		require.NotNil(t, state, exit)
		require.Equal(t, exit.KeepsState(), state.Keep > 0 && len(state.Fields) > 0, exit)
	}
}

// A save that took the fields of the end would leave the settle without them: the state would stay as a running
// job's.
func TestASaveLeavesTheEndOfAJobToItsSettle(t *testing.T) {
	t.Parallel()
	r := &Run{Bytes: payload("mail"), outcome: job.Done()}
	parsed, err := job.Parse(r.Bytes)
	require.NoError(t, err)
	saved := r.Saved(parsed)
	saved.read = true
	saved.Set(lua.FieldProgress, "7")
	saved.End(time.Hour)
	saved.Set(lua.FieldState, string(lua.TrackDone))
	require.Empty(t, saved.Save(t.Context(), 0), "it has no client: another call would panic")
	state := new(Keyspace).stateAtEnd(r)
	require.Equal(t, []string{lua.FieldProgress, "7", lua.FieldState, "done"}, state.Fields)
	require.Equal(t, time.Hour, state.Keep)
}

func TestALockIsReleasedByTheExitsThatEndItsJob(t *testing.T) {
	t.Parallel()
	for _, exit := range job.Exits {
		for _, until := range []dedup.Until{dedup.UntilExecuting, dedup.UntilExecuted} {
			require.Equal(t, exit.Ends(), dedup.Lock{Until: until, Digest: "d"}.Releases(exit), exit)
		}
	}
}

// Otherwise this process would take the job again before it has read the answer to its own settle, as fast as
// a round trip allows, and report lost replies that there were not.
func TestAJobThatReturnsToItsQueueIsLeftToOtherProcesses(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, open opener) {
		r := newRig(t, open, 3, "mail")
		jobs := r.push("mail", 1)
		r.pump("the job", func() bool { return len(r.running) == 1 })
		r.finish(r.running[0], job.Requeued())
		require.Equal(t, 1, r.k.backedOff)
		r.running = nil
		r.pump("the job to be in its queue, also if a wait brought it once more", func() bool {
			return len(r.list(r.keys.Queue("mail"))) == 1 && r.k.openWaits() == 0 && r.k.inFlight == 0
		})
		require.Empty(t, r.running)
		require.Equal(t, jobs, r.list(r.keys.Queue("mail")))
		r.pump("the job again, later", func() bool { return len(r.running) == 1 })
		require.Zero(t, r.k.backedOff)
		require.NotRegexp(t, "lost|duplicate take", r.log.String())
	})
}

// A job whose start has freed its lock takes the lock again before it waits again, or a duplicate would be
// accepted beside it.
func TestAJobThatIsPutBackBeforeItsRunHasItsLock(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]func(*Run) job.Outcome{
		"requeued": func(*Run) job.Outcome { return job.Requeued() },
		"snoozed":  func(r *Run) job.Outcome { return job.Snoozed(r.Bytes, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, open opener) {
				r := newRig(t, open, 3, "mail")
				j := r.pushUnique(untilExecuting, 1)
				r.pump("the job", func() bool { return len(r.running) == 1 })
				require.Empty(t, r.lockOf(j), "freed by the start")
				r.loop.beQuiet()
				r.k.putBack(r.running[0], outcome(r.running[0]))
				r.pump("it to wait", func() bool {
					return len(r.list(r.keys.Queue("mail"))) == 1 || r.do("ZCARD", r.keys.Schedule()) == int64(1)
				})
				require.Equal(t, "-"+j.JID, r.lockOf(j))
				require.Equal(t, int64(map[string]int{"snoozed": 1}[name]), r.do("ZCARD", r.keys.Schedule()))
			})
		})
	}
}
