package measure

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitingForRuns(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, jobs, run int, every time.Duration) (err error) {
		synctest.Test(t, func(t *testing.T) {
			l := newLedger(jobs)
			go func() {
				for n := range run {
					time.Sleep(every)
					_ = l.note(n, nil)
				}
			}()
			err = l.wait(t.Context(), 30*time.Second)
		})
		return err
	}
	t.Run("goes on for as long as jobs run", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, run(t, 20, 20, 29*time.Second))
	})
	t.Run("ends when nothing moves", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, run(t, 20, 7, time.Second), "13 of 20 jobs had not run, and none had for 30s")
	})
}
