package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceAsksForMoreWhileFullPagesComeQuickly(t *testing.T) {
	var pace Pace
	for range 20 {
		require.LessOrEqual(t, pace.Page(), MaxPage)
		pace.Answered(pace.Page(), time.Millisecond, time.Second)
	}
	require.Equal(t, MaxPage, pace.Page())

	slow := Pace{}
	slow.Answered(slow.Page(), time.Second, 2*time.Second)
	require.Equal(t, firstPage, slow.Page(), "a page that took long grew")
	slow.Answered(slow.Page()-1, time.Millisecond, 2*time.Second)
	require.Equal(t, firstPage, slow.Page(), "a page that was not full grew")
}

func TestPaceAsksForLessAndWaitsLongerAfterFailures(t *testing.T) {
	var pace Pace
	page, allowed := pace.Page(), pace.Timeout(time.Second, 1<<20)
	for range 20 {
		pace.Failed()
		require.LessOrEqual(t, pace.Page(), page)
		require.GreaterOrEqual(t, pace.Timeout(time.Second, 1<<20), allowed)
		page, allowed = pace.Page(), pace.Timeout(time.Second, 1<<20)
	}
	require.Equal(t, minPage, page)
	require.GreaterOrEqual(t, allowed, 30*time.Second, "a job of 1 MiB must come through a link of 0.5 Mbit/s")
	require.Equal(t, MaxRound, pace.Timeout(time.Second, 0), "calls without jobs wait for ever")
	pace.Answered(0, time.Millisecond, allowed)
	require.Equal(t, MaxRound, pace.Timeout(time.Second, 0), "a call without jobs has made up for a page that failed")

	for range 4 * maxGap {
		pace.Answered(pace.Page(), time.Millisecond, allowed)
	}
	require.Equal(t, MaxPage, pace.Page())
	require.Equal(t, time.Second, pace.Timeout(time.Second, 0))
}

func TestPaceTakesNoLongWayForANarrowOne(t *testing.T) {
	var pace Pace
	pace.Answered(0, 500*time.Millisecond, time.Second)
	pace.Answered(pace.Page(), 550*time.Millisecond, time.Second)
	require.Equal(t, 2*firstPage, pace.Page())
	pace.Answered(pace.Page(), 700*time.Millisecond, time.Second)
	require.Equal(t, 2*firstPage, pace.Page())
}

func TestPaceSeldomTriesASizeThatFailsAgainAndAgain(t *testing.T) {
	var pace Pace
	failed := 0
	const pages, most = 400, 100_000
	for range pages {
		if pace.Page() > most {
			failed++
			pace.Failed()
		} else {
			pace.Answered(pace.Page(), time.Millisecond, time.Second)
		}
	}
	require.Less(t, failed, pages/5)
}

// The first answer includes the opening of its connection. Measured by that, each page would seem quick.
func TestPaceLearnsARoundTripFromWhateverIsAnsweredSooner(t *testing.T) {
	var pace Pace
	pace.Answered(0, 2*time.Second, 3*time.Second)
	pace.Answered(200, 500*time.Millisecond, 3*time.Second)
	pace.Answered(pace.Page(), time.Second, 3*time.Second)
	require.Equal(t, firstPage, pace.Page(), "a page that took half a second on top of a round trip grew")

	pace = Pace{}
	pace.Answered(0, 2*time.Second, 3*time.Second)
	pace.Answered(pace.Page(), 600*time.Millisecond, 3*time.Second)
	pace.Answered(pace.Page(), 800*time.Millisecond, 3*time.Second)
	require.Equal(t, 2*firstPage, pace.Page(), "a page is a round trip at least")
}

func TestPaceAllowsACallMoreTimeAfterAMissedDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pace Pace
		missed := func() time.Duration {
			began := time.Now()
			err := pace.Within(t.Context(), time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return time.Since(began)
		}
		require.Equal(t, time.Second, missed())
		require.Greater(t, missed(), time.Second)
		for range maxStrain {
			missed()
		}
		require.Equal(t, maxWithin, missed(), "heartbeats would wait for a failed primary")
		for range maxStrain {
			require.NoError(t, pace.Within(t.Context(), time.Second, func(context.Context) error { return nil }))
		}
		require.Equal(t, time.Second, missed())
	})
}
