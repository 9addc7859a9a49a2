package belay_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

func TestPushOnce(t *testing.T) {
	t.Parallel()
	behind := func(t *testing.T, repeatFor time.Duration) (*belay.Client, *faultproxy.Proxy) {
		proxy := faultproxy.New(t, drivertest.Redis(t).Addr())
		prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
		client, err := belay.Open(t.Context(), proxy.URL(), &belay.ClientConfig{Prefix: prefix, RepeatFor: repeatFor})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return client, proxy
	}
	stored := func(t *testing.T, client *belay.Client, want int) {
		length := client.Driver().Do(t.Context(), driver.Command("LLEN", client.Config().Prefix+":queue:default"))[0]
		require.Equal(t, driver.Reply{Value: int64(want)}, length)
	}
	number := belay.Define[int]("Number", belay.PushOnce())

	t.Run("jobs of a class whose answers are lost are stored once", func(t *testing.T) {
		t.Parallel()
		client, proxy := behind(t, 0)
		proxy.Add(faultproxy.DropReply("belay:pushes:"), faultproxy.DropRequest("belay:pushes:"))
		_, err := number.Enqueue(t.Context(), client, 1)
		require.NoError(t, err)
		receipts, err := number.EnqueueMany(t.Context(), client, slices.Values([]int{2, 3, 4}))
		require.NoError(t, err)
		require.Len(t, receipts, 3)
		stored(t, client, 4)
	})
	t.Run("and their replicas are reported, on a Redis that has none", func(t *testing.T) {
		t.Parallel()
		client, _ := behind(t, 0)
		receipt, err := number.Enqueue(t.Context(), client, 1, belay.Replicated(1, 50*time.Millisecond))
		require.ErrorIs(t, err, belay.ErrReplicas)
		require.Equal(t, belay.Receipt{JID: receipt.JID, Queue: "default", Status: belay.StatusQueued}, receipt)
		stored(t, client, 1)
	})
	t.Run("are repeated by the program alone if it says so", func(t *testing.T) {
		t.Parallel()
		client, proxy := behind(t, -1)
		_, err := number.Enqueue(t.Context(), client, 1) // its first request may have to bring the script
		require.NoError(t, err)
		proxy.Add(faultproxy.DropReply("belay:pushes:"))
		receipt, err := number.Enqueue(t.Context(), client, 2)
		require.ErrorIs(t, err, belay.ErrUnknown)
		receipt, err = client.Repeat(t.Context(), receipt)
		require.NoError(t, err)
		require.Equal(t, belay.StatusQueued, receipt.Status)
		stored(t, client, 2)
	})
}
