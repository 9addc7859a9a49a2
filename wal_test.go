package belay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

func TestWALLocation(t *testing.T) {
	t.Parallel()
	d := belay.Define[int]("A", belay.WALLocation("main", 9), belay.Idempotent())
	require.Equal(t, belay.WAL{"main": 9, "ci": 1}, d.Job(1, belay.WALLocation("ci", 1)).WAL)
	require.Equal(t, belay.WAL{"main": 10}, d.Job(1, belay.WALLocation("main", 10)).WAL)
	require.Equal(t, belay.WAL{"main": 9}, d.Job(1).WAL, "what one job says is its own")
	require.ErrorContains(t, d.Job(1, belay.WALLocation("main", 0)).Check(), "is 0: leave it out")
}

func TestStampWAL(t *testing.T) {
	t.Parallel()
	calls := 0
	stamp := belay.StampWAL("main", func(context.Context) (belay.LSN, error) {
		calls++
		return 16 << 32, nil
	})
	d := belay.Define[int]("A", belay.WALLocation("ci", 9), belay.Idempotent())
	item := d.Job(1)
	require.NoError(t, stamp(t.Context(), &item))
	require.Equal(t, belay.WAL{"main": 16 << 32, "ci": 9}, item.WAL)
	item = d.Job(1, belay.WALLocation("main", 1))
	require.NoError(t, stamp(t.Context(), &item))
	require.Equal(t, belay.LSN(1), item.WAL["main"], "who pushes knows better")
	require.Equal(t, 1, calls)
	require.Equal(t, belay.WAL{"ci": 9}, d.Job(1).WAL)
	away := belay.StampWAL("main", func(context.Context) (belay.LSN, error) { return 0, errors.New("away") })
	item = d.Job(1)
	require.EqualError(t, away(t.Context(), &item), "stamp with the position of main: away")
}

// Where positions come from is wal.Current's business, and what they are for wal.Wait's; here they are made up.
func ExampleWALPositions() {
	url, stopRedis := exampleRedis()
	defer stopRedis()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	written := belay.LSN(0x9_00000000)
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	client.Use("wal", belay.StampWAL("main", func(context.Context) (belay.LSN, error) {
		written += 0x7_00000000 // wal.Current(ctx, primary)
		return written, nil
	}))
	reindex := belay.Define[int64]("Reindex", belay.Unique(belay.UntilExecuting), belay.Idempotent())
	for range 3 {
		receipt, err := reindex.Enqueue(ctx, client, 42)
		fmt.Println(receipt.Status, err)
	}

	server, err := belay.NewServer(client, belay.ServerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	reindex.Handle(server, func(ctx context.Context, _ int64) error {
		// wal.Wait(ctx, replica, belay.WALPositions(ctx)["main"], 2*time.Second), and then read the replica
		fmt.Println("wait for", belay.WALPositions(ctx)["main"])
		stop()
		return nil
	})
	if err := server.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// queued <nil>
	// duplicate <nil>
	// duplicate <nil>
	// wait for 1E/0
}
