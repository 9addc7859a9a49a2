package belaytest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// A waited is what a Wait came back with.
type waited struct {
	payload string
	ok      bool
	err     error
}

// waits calls test in a bubble with a waiter and where its Wait comes back. The Wait has begun.
func waits(t *testing.T, test func(t *testing.T, m *memory, w driver.Waiter, back <-chan waited)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		w, err := m.Waiter()
		require.NoError(t, err)
		back := make(chan waited, 1)
		go func() {
			payload, ok, err := w.Wait(t.Context(), "from", "to", time.Minute)
			back <- waited{payload, ok, err}
		}()
		synctest.Wait()
		test(t, m, w, back)
	})
}

// driver's TestConformance needs a driver that dials a server. This driver has none, so its promises are
// tested here.
func TestAWait(t *testing.T) {
	t.Parallel()
	t.Run("moves what comes meanwhile, and is not released any more then", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, w driver.Waiter, back <-chan waited) {
			require.NoError(t, m.Do(t.Context(), driver.Command("LPUSH", "from", "job"))[0].Err)
			require.Equal(t, waited{"job", true, nil}, <-back)
			require.Equal(t, []any{"job"}, m.Do(t.Context(), driver.Command("LRANGE", "to", "0", "-1"))[0].Value)
			done, err := w.Release(t.Context())
			require.NoError(t, err)
			require.False(t, done)
		})
	})
	t.Run("lasts its limit", func(t *testing.T) {
		waits(t, func(t *testing.T, _ *memory, _ driver.Waiter, back <-chan waited) {
			begin := time.Now()
			require.Equal(t, waited{}, <-back)
			require.Equal(t, time.Minute, time.Since(begin))
		})
	})
	t.Run("moves nothing once it is released", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, w driver.Waiter, back <-chan waited) {
			done, err := w.Release(t.Context())
			require.NoError(t, err)
			require.True(t, done)
			require.NoError(t, m.Do(t.Context(), driver.Command("LPUSH", "from", "job"))[0].Err)
			require.Equal(t, waited{}, <-back)
			require.Equal(t, int64(1), m.Do(t.Context(), driver.Command("LLEN", "from"))[0].Value)
		})
	})
	t.Run("ends uncertainly when its waiter is closed, which refuses from then on", func(t *testing.T) {
		waits(t, func(t *testing.T, _ *memory, w driver.Waiter, back <-chan waited) {
			require.NoError(t, w.Close())
			require.False(t, driver.Certain((<-back).err))
			_, _, err := w.Wait(t.Context(), "from", "to", time.Minute)
			require.True(t, driver.Certain(err))
			require.NoError(t, w.Close())
		})
	})
	t.Run("says why when its list is none", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, _ driver.Waiter, back <-chan waited) {
			require.NoError(t, m.Do(t.Context(), driver.Command("SET", "from", "no list"))[0].Err)
			var refused *driver.ServerError
			require.ErrorAs(t, (<-back).err, &refused)
			require.Equal(t, "WRONGTYPE", refused.Code)
		})
	})
}

func TestACallWhoseContextIsOverIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	require.NoError(t, m.Do(t.Context(), driver.Command("SET", "a", "1"))[0].Err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	replies := m.Do(ctx, driver.Command("SET", "a", "2"), driver.Command("SET", "b", "2"))
	var unsent *driver.NotSentError
	require.ErrorAs(t, replies[1].Err, &unsent)
	require.Equal(t, "1", m.Do(t.Context(), driver.Command("GET", "a"))[0].Value)
}
