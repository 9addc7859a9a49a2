package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// A counted client counts its open lanes. Each call takes a second.
type counted struct {
	driver.Client
	open, opened atomic.Int64
}

func (c *counted) Lane(int) (driver.Client, error) {
	c.open.Add(1)
	c.opened.Add(1)
	return countedLane{of: c}, nil
}

type countedLane struct {
	driver.Client
	of *counted
}

func (l countedLane) Do(_ context.Context, calls ...driver.Call) []driver.Reply {
	time.Sleep(time.Second)
	return make([]driver.Reply, len(calls))
}

func (l countedLane) Close() error {
	l.of.open.Add(-1)
	return nil
}

func TestALaneIsOpenOnDemand(t *testing.T) {
	t.Parallel()
	ping := driver.Command("PING")
	within := func(name string, test func(t *testing.T, client *counted, lane *driver.OnDemand)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := &counted{}
				lane := driver.NewOnDemand(client, driver.IdleFor)
				test(t, client, lane)
				require.NoError(t, lane.Close())
				require.NoError(t, lane.Close())
				require.Zero(t, client.open.Load())
				var unsent *driver.NotSentError
				require.ErrorAs(t, lane.Do(t.Context(), ping)[0].Err, &unsent)
				require.Zero(t, client.open.Load())
			})
		})
	}
	within("it_is_opened_by_a_call_and_closed_after_a_while_without_one", func(t *testing.T, client *counted, lane *driver.OnDemand) {
		for round := range 2 {
			require.Zero(t, client.open.Load())
			for range 3 {
				require.NoError(t, lane.Do(t.Context(), ping)[0].Err)
				require.EqualValues(t, 1, client.open.Load())
				time.Sleep(driver.IdleFor - time.Millisecond)
			}
			require.EqualValues(t, round+1, client.opened.Load())
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
		}
	})
	within("a_call_under_way_keeps_it", func(t *testing.T, client *counted, lane *driver.OnDemand) {
		go lane.Do(t.Context(), ping)
		time.Sleep(time.Millisecond)
		for range 40 {
			go lane.Do(t.Context(), ping)
			time.Sleep(time.Second)
			require.EqualValues(t, 1, client.open.Load())
		}
		require.EqualValues(t, 1, client.opened.Load())
		synctest.Wait()
	})
	within("it_rests", func(t *testing.T, client *counted, lane *driver.OnDemand) {
		go lane.Do(t.Context(), ping)
		time.Sleep(time.Millisecond)
		lane.Rest(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, client.open.Load(), "a call is under way")
		err := lane.Do(t.Context(), ping)[0].Err
		require.True(t, driver.Certain(err) && driver.Outage(err) && !driver.TooManyClients(err), "%v", err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, client.open.Load(), "the call has ended")
		time.Sleep(4 * time.Second)
		require.NoError(t, lane.Do(t.Context(), ping)[0].Err)
		require.EqualValues(t, 1, client.open.Load())
		lane.Rest(time.Second)
		synctest.Wait()
		require.Zero(t, client.open.Load())
	})
}
