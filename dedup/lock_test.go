package dedup_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// held returns a lock with this end and a TTL of one second.
func held(until dedup.Until) dedup.Lock {
	return dedup.Lock{Digest: "00112233445566778899aabbccddeeff", JID: "j", Until: until, TTL: time.Second}
}

func TestLock(t *testing.T) {
	t.Parallel()
	executing, executed := held(dedup.UntilExecuting), held(dedup.UntilExecuted)
	again, scheduled := executed, executed
	again.Rerun, scheduled.Scheduled = true, true

	t.Run("a_push_for_later_takes_it_only_when_asked", func(t *testing.T) {
		t.Parallel()
		for _, now := range []time.Duration{0, -1, -time.Hour} {
			require.True(t, executed.Takes(now))
			require.True(t, scheduled.Takes(now))
		}
		for _, later := range []time.Duration{1, time.Hour, math.MaxInt64} {
			require.False(t, executed.Takes(later))
			require.True(t, scheduled.Takes(later))
		}
	})
	t.Run("lives_for_the_delay_and_its_ttl_never_shorter", func(t *testing.T) {
		t.Parallel()
		for delay, want := range map[time.Duration]time.Duration{
			0: time.Second, -time.Hour: time.Second, math.MinInt64: time.Second,
			time.Hour: time.Hour + time.Second, 1: time.Second + time.Millisecond, 1500 * time.Microsecond: time.Second + 2*time.Millisecond,
		} {
			require.Equal(t, want, executed.Lifetime(delay), delay)
		}
		longest := executed
		longest.TTL = dedup.MaxTTL
		for _, delay := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second, math.MaxInt64 - dedup.MaxTTL - time.Millisecond, math.MaxInt64 - dedup.MaxTTL} {
			for _, l := range []dedup.Lock{executed, longest} {
				got := l.Lifetime(delay)
				require.GreaterOrEqual(t, got, min(delay, math.MaxInt64-time.Millisecond))
				require.Zero(t, got%time.Millisecond)
			}
		}
	})
	t.Run("a_start_releases_or_clears_it", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, dedup.StartRelease, executing.AtStart())
		require.Equal(t, dedup.StartNothing, executed.AtStart())
		require.Equal(t, dedup.StartClear, again.AtStart())
		require.False(t, executing.InHand())
		require.True(t, executed.InHand())
	})
	t.Run("every_end_of_the_job_releases_it_and_no_other_exit_does", func(t *testing.T) {
		t.Parallel()
		for exit, ends := range map[job.Exit]bool{
			job.ExitDone: true, job.ExitDiscarded: true, job.ExitDead: true,
			job.ExitRetry: false, job.ExitSnoozed: false, job.ExitRequeued: false, job.ExitWaits: false, "": false, "unknown": false,
		} {
			for _, l := range []dedup.Lock{executing, executed, again, scheduled} {
				require.Equal(t, ends, l.Releases(exit), exit)
				require.Equal(t, ends && l.Rerun, l.Reruns(exit), exit)
			}
		}
	})
	t.Run("the_zero_lock_decides_nothing", func(t *testing.T) {
		t.Parallel()
		var none dedup.Lock
		require.True(t, none.None())
		require.False(t, executed.None())
		require.False(t, none.Takes(0))
		require.Zero(t, none.Lifetime(time.Hour))
		require.Equal(t, dedup.StartNothing, none.AtStart())
		require.False(t, none.InHand())
		require.False(t, none.Releases(job.ExitDone))
		require.False(t, none.Reruns(job.ExitDone))
		require.Equal(t, job.Remove(dedup.FieldName), none.Edit())
	})
}
