package belay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

// A dropped class ends with its jobs what belongs to them: the state of a tracked one, its lock, its membership in
// a batch, which is over then, and its next job, which never comes.
func TestDroppedJobsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, client *belay.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		row := belay.Define[string]("Row", belay.Track(time.Hour))
		unique := belay.Define[string]("Row2", belay.Unique(belay.UntilExecuted))
		call := belay.Define[string]("Call")
		server := newServer(t, client, belay.ServerConfig{})
		called := make(chan string, 9)
		ran := func(context.Context, string) error { called <- "a dropped job"; return nil }
		row.Handle(server, ran)
		unique.Handle(server, ran)
		call.Handle(server, func(_ context.Context, name string) error { called <- name; return nil })
		operator := inspect.New(client)
		for _, class := range []string{"Row", "Row2"} {
			changed, err := operator.SetClassRule(ctx, inspect.ClassRule{Class: class, Rule: inspect.RuleDrop})
			require.NoError(t, err)
			require.True(t, changed)
		}
		tracked, err := row.Enqueue(ctx, client, "tracked", belay.Then(call.Job("next")))
		require.NoError(t, err)
		locked, err := unique.Enqueue(ctx, client, "locked")
		require.NoError(t, err)
		batch, err := belay.NewBatch(ctx, client, belay.BatchConfig{OnSuccess: call.Job("success")}, func(b *belay.Batch) error {
			_, err := row.Enqueue(ctx, client, "member", belay.InBatch(b))
			return err
		})
		require.NoError(t, err)
		running(t, server)

		_, err = client.Wait(ctx, tracked.JID)
		ended, is := errors.AsType[*belay.EndedError](err)
		require.True(t, is, "%v", err)
		require.Equal(t, lua.TrackCancelled, ended.State)
		require.Equal(t, "success", awaitValue(t, "the callback", called))
		status, err := batch.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, [4]int{1, 0, 0, 1}, [4]int{status.Total, status.Pending, status.Dead, status.Removed})
		drained := func() bool {
			found, err := operator.Find(ctx, locked.JID, nil)
			require.NoError(t, err)
			return found.Place == inspect.PlaceNotFound
		}
		for !drained() {
			time.Sleep(tick)
		}
		again, err := unique.Enqueue(ctx, client, "locked")
		require.NoError(t, err)
		require.Equal(t, belay.StatusQueued, again.Status, "its lock is free")
		require.Empty(t, called, "no next job and no dropped one")
	})
}
