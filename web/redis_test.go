package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
)

func TestThePageAboutRedisShowsTheFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	page := r.get("/redis").body
	for _, name := range []string{"version", "memory", "persistence", "latency", "clients", "permissions"} {
		require.Contains(t, page, "<strong>"+name+"</strong>")
	}
	require.Contains(t, page, `<span class="tag good">ok</span>`)
	require.Equal(t, check.Findings{{Name: "c", Severity: check.SeverityBad}, {Name: "b", Severity: check.SeverityWarn}, {Name: "a", Severity: check.SeverityOK}},
		worstFirst(check.Findings{{Name: "a", Severity: check.SeverityOK}, {Name: "b", Severity: check.SeverityWarn}, {Name: "c", Severity: check.SeverityBad}}))
}

func TestASharedValueServesSeveralRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		reads, away := 0, errors.New("away")
		get := func(every time.Duration, err error) (int, error) {
			return s.get(t.Context(), every, func(context.Context) (int, error) { reads++; return reads, err })
		}
		for range 3 {
			_, err := get(time.Hour, away)
			require.ErrorIs(t, err, away)
		}
		require.Equal(t, 1, reads, "an error is kept, or each request would wait for a Redis that does not answer")
		time.Sleep(fresh)
		for range 3 {
			value, err := get(time.Hour, nil)
			require.NoError(t, err)
			require.Equal(t, 2, value, "an error is kept for a moment, and a value for longer")
		}
		time.Sleep(time.Hour)
		value, err := get(0, nil)
		require.NoError(t, err)
		require.Equal(t, 3, value, "it is read again when it is old")
	})
}

// One shard that does not answer makes each read slow.
func TestASlowReadOfASharedValueIsInNobodysWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		reads := 0
		slow := func(ctx context.Context) (int, error) {
			reads++
			own := reads
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(4 * time.Second):
				return own, nil
			}
		}
		go func() { _, _ = s.get(t.Context(), fresh, slow) }()
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		began := time.Now()
		_, err := s.get(ctx, fresh, slow)
		require.ErrorIs(t, err, gone)
		require.Equal(t, time.Second, time.Since(began), "a request that waits for another one's read ends in time")

		waiter := make(chan int, 1)
		go func() { value, _ := s.get(t.Context(), fresh, slow); waiter <- value }()
		synctest.Wait()
		s.stale() // an act
		value, err := s.get(t.Context(), fresh, slow)
		require.NoError(t, err)
		require.Equal(t, 2, value, "a read that began before the act does not count after it")
		require.Equal(t, 1, <-waiter)
		time.Sleep(3 * time.Second)
		value, err = s.get(t.Context(), fresh, slow)
		require.NoError(t, err)
		require.Equal(t, 2, value, "it is kept for as long as its read took")
		time.Sleep(2 * time.Second)
		value, err = s.get(t.Context(), fresh, slow)
		require.NoError(t, err)
		require.Equal(t, 3, value)
	})
}

func TestAReadThatPanicsLeavesNoneWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		go func() {
			defer func() { _ = recover() }()
			_, _ = s.get(t.Context(), 0, func(context.Context) (int, error) { time.Sleep(time.Second); panic("a bug") })
		}()
		synctest.Wait()
		_, err := s.get(t.Context(), 0, nil)
		require.ErrorIs(t, err, errReadPanicked)
	})
}
