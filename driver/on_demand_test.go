package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
)

// A counted client counts its open lanes. Each call takes a second.
type counted struct {
	driver.Client
	open, opened int
}

func (c *counted) Lane(int) (driver.Client, error) {
	c.open++
	c.opened++
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
	l.of.open--
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
				require.Zero(t, client.open)
				var unsent *driver.NotSentError
				require.ErrorAs(t, lane.Do(t.Context(), ping)[0].Err, &unsent)
				require.Zero(t, client.open)
			})
		})
	}
	within("it_is_opened_by_a_call_and_closed_after_a_while_without_one", func(t *testing.T, client *counted, lane *driver.OnDemand) {
		for round := range 2 {
			require.Zero(t, client.open)
			for range 3 {
				require.NoError(t, lane.Do(t.Context(), ping)[0].Err)
				require.Equal(t, 1, client.open)
				time.Sleep(driver.IdleFor - time.Millisecond)
			}
			require.Equal(t, round+1, client.opened)
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
			require.Equal(t, 1, client.open)
		}
		require.Equal(t, 1, client.opened)
		synctest.Wait()
	})
	within("it_rests", func(t *testing.T, client *counted, lane *driver.OnDemand) {
		go lane.Do(t.Context(), ping)
		time.Sleep(time.Millisecond)
		lane.Rest(5 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, client.open, "a call is under way")
		err := lane.Do(t.Context(), ping)[0].Err
		require.True(t, driver.Certain(err) && driver.Outage(err) && !driver.TooManyClients(err), "%v", err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, client.open, "the call has ended")
		time.Sleep(4 * time.Second)
		require.NoError(t, lane.Do(t.Context(), ping)[0].Err)
		require.Equal(t, 1, client.open)
		lane.Rest(time.Second)
		synctest.Wait()
		require.Zero(t, client.open)
	})
}
