package belay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
)

// Jobs that are stored once for a key or in a period: whatever has become of the first one, the next is a
// duplicate.
func TestAJobIsStoredOnceThoughTheFirstHasEnded(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
		redis := open(t, drivertest.Redis(t).URL())
		client, err := belay.NewClient(redis, &belay.ClientConfig{Prefix: prefix})
		require.NoError(t, err)
		runs, dead := make(chan string, 10), make(chan string, 10)
		server := newServer(t, client, belay.ServerConfig{})
		server.OnDeath(func(_ context.Context, j *belay.Job, _ error) { dead <- j.Class() })
		byKey := belay.Define[string]("ByKey")
		period := belay.UniqueOpts{TTL: time.Hour}
		byPeriod := belay.Define[string]("ByPeriod", belay.Unique(belay.UntilExpired, period), belay.Retries(0))
		for _, d := range []*belay.Definition[string]{byKey, byPeriod} {
			d.Handle(server, func(ctx context.Context, does string) error {
				if does == "dies" {
					return errors.New("it dies")
				}
				runs <- does
				return nil
			})
		}
		enqueue := func(does string) (receipts [2]belay.Receipt) {
			for n, push := range []func() (belay.Receipt, error){
				func() (belay.Receipt, error) {
					return byKey.Enqueue(t.Context(), client, does, belay.Key("event "+does, time.Hour), belay.Retries(0))
				},
				func() (belay.Receipt, error) { return byPeriod.Enqueue(t.Context(), client, does) },
			} {
				receipt, err := push()
				require.NoError(t, err)
				receipts[n] = receipt
			}
			return receipts
		}
		var first [3][2]belay.Receipt
		for n, does := range []string{"succeeds", "dies", "is deleted"} {
			first[n] = enqueue(does)
			for _, receipt := range first[n] {
				require.Equal(t, belay.StatusQueued, receipt.Status)
			}
		}
		cancelled, err := inspect.New(client).Cancel(t.Context(), first[2][0].JID, first[2][1].JID)
		require.NoError(t, err)
		for _, result := range cancelled {
			require.Equal(t, inspect.CancelRemoved, result.Result)
		}
		running(t, server)
		for range 2 {
			require.Equal(t, "succeeds", awaitValue(t, "a run", runs))
			awaitValue(t, "a death", dead)
		}
		for n, does := range []string{"succeeds", "dies", "is deleted"} {
			for which, receipt := range enqueue(does) {
				require.Equal(t, belay.StatusDuplicate, receipt.Status, "%s: %d", does, which)
				require.Equal(t, first[n][which].JID, receipt.Holder)
			}
		}
	})
}

func TestNotUniqueLeavesTheKeyAlone(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	report := belay.Define[int]("Report", belay.Unique(belay.UntilExecuted))
	first, err := report.Enqueue(t.Context(), client, 1, belay.NotUnique(), belay.Key("k", time.Hour))
	require.NoError(t, err)
	second, err := report.Enqueue(t.Context(), client, 2, belay.Key("k", time.Hour), belay.NotUnique())
	require.NoError(t, err)
	require.Equal(t, first.JID, second.Holder)
	third, err := report.Enqueue(t.Context(), client, 1)
	require.NoError(t, err)
	require.Equal(t, belay.StatusQueued, third.Status, "the first one holds the lock of its key, and no other")
}
