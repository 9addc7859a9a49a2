package measure

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitingForRuns(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, jobs, run int, every time.Duration) (err error) {
		synctest.Test(t, func(t *testing.T) {
			timing := NewTiming(jobs)
			go func() {
				for n := range run {
					time.Sleep(every)
					_ = timing.Starts(n, time.Now())
				}
			}()
			err = timing.wait(t.Context(), 30*time.Second)
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

func TestTiming(t *testing.T) {
	timed := func(starts ...int) error {
		timing := NewTiming(2)
		timing.Due[0], timing.Due[1] = time.Now(), time.Now()
		for _, n := range starts {
			if err := timing.Starts(n, time.Now()); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it waits for nothing more
		select {
		case <-timing.all:
			ctx = t.Context()
		default:
		}
		_, err := timing.Finish(ctx)
		return err
	}
	t.Run("all jobs once is a result", func(t *testing.T) { require.NoError(t, timed(1, 0)) })
	t.Run("a job that runs twice is none", func(t *testing.T) { require.ErrorContains(t, timed(0, 0, 1), "job 0 ran 2 times") })
	t.Run("a job that does not start is none", func(t *testing.T) { require.ErrorContains(t, timed(1), "context canceled") })
	t.Run("a job with a strange number is none", func(t *testing.T) { require.ErrorContains(t, timed(2), "none of this task's") })
}
