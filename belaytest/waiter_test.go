package belaytest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// A result is what a Wait returned.
type result struct {
	payload string
	ok      bool
	err     error
}

// waits calls test in a bubble, with a waiter whose Wait has begun, and the channel of its result.
func waits(t *testing.T, test func(t *testing.T, m *memory, w driver.Waiter, returned <-chan result)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		w, err := m.Waiter()
		require.NoError(t, err)
		returned := make(chan result, 1)
		go func() {
			payload, ok, err := w.Wait(t.Context(), "from", "to", time.Minute)
			returned <- result{payload, ok, err}
		}()
		synctest.Wait()
		test(t, m, w, returned)
	})
}

// driver's TestConformance needs a driver that dials a server. This driver has none, so its promises are
// tested here.
func TestAWait(t *testing.T) {
	t.Parallel()
	t.Run("moves a job that arrives, and cannot be released after that", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, w driver.Waiter, returned <-chan result) {
			require.NoError(t, m.Do(t.Context(), driver.Command("LPUSH", "from", "job"))[0].Err)
			require.Equal(t, result{"job", true, nil}, <-returned)
			require.Equal(t, []any{"job"}, m.Do(t.Context(), driver.Command("LRANGE", "to", "0", "-1"))[0].Value)
			done, err := w.Release(t.Context())
			require.NoError(t, err)
			require.False(t, done)
		})
	})
	t.Run("ends after its limit", func(t *testing.T) {
		waits(t, func(t *testing.T, _ *memory, _ driver.Waiter, returned <-chan result) {
			begin := time.Now()
			require.Equal(t, result{}, <-returned)
			require.Equal(t, time.Minute, time.Since(begin))
		})
	})
	t.Run("moves nothing after its release", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, w driver.Waiter, returned <-chan result) {
			done, err := w.Release(t.Context())
			require.NoError(t, err)
			require.True(t, done)
			require.NoError(t, m.Do(t.Context(), driver.Command("LPUSH", "from", "job"))[0].Err)
			require.Equal(t, result{}, <-returned)
			require.Equal(t, int64(1), m.Do(t.Context(), driver.Command("LLEN", "from"))[0].Value)
		})
	})
	t.Run("returns an uncertain error when its waiter is closed, which then refuses calls", func(t *testing.T) {
		waits(t, func(t *testing.T, _ *memory, w driver.Waiter, returned <-chan result) {
			require.NoError(t, w.Close())
			require.False(t, driver.Certain((<-returned).err))
			_, _, err := w.Wait(t.Context(), "from", "to", time.Minute)
			require.True(t, driver.Certain(err))
			require.NoError(t, w.Close())
		})
	})
	t.Run("returns the error of a key that is not a list", func(t *testing.T) {
		waits(t, func(t *testing.T, m *memory, _ driver.Waiter, returned <-chan result) {
			require.NoError(t, m.Do(t.Context(), driver.Command("SET", "from", "no list"))[0].Err)
			var refused *driver.ServerError
			require.ErrorAs(t, (<-returned).err, &refused)
			require.Equal(t, "WRONGTYPE", refused.Code)
		})
	})
}

func TestACallWhoseContextHasEndedIsNotSent(t *testing.T) {
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

// A subscription that ends while a message is on its way neither waits for ever nor stops the sender.
func TestAListenerLeavesWhileAnotherPublishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		for range 20 { // each time chance decides between the message and the end
			ctx, leave := context.WithCancel(t.Context())
			received, goOn, sent := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = m.Listen(ctx, []string{"news"}, 0, func() { received <- struct{}{} }, func(string) {
					received <- struct{}{}
					<-goOn
				})
			}()
			<-received // it has subscribed
			publish := func() {
				_ = m.Do(t.Context(), driver.Command("PUBLISH", "news", "x"))
				sent <- struct{}{}
			}
			go publish()
			<-received
			<-sent
			go publish()
			synctest.Wait() // until it waits for the listener, which is busy
			leave()
			close(goOn)
			<-ended
			<-sent
		}
	})
}
