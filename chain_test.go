package belay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver/drivertest"
	"github.com/belayq/belay/driver/goredisdriver"
)

func TestChainKeepsItsOrder(t *testing.T) {
	t.Parallel()
	var chain belay.Chain[int]
	chain.Add("b", 2).Add("d", 4).Prepend("a", 1).InsertBefore("d", "c", 3).InsertAfter("d", "e", 5)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, chain.Names())
	chain.Remove("c").Remove("nobody")
	require.Equal(t, []string{"a", "b", "d", "e"}, chain.Names())
}

func TestMiddlewareOfAChainRunsOutsideIn(t *testing.T) {
	t.Parallel()
	var seen []string
	note := func(name string) belay.Middleware {
		return func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				seen = append(seen, name)
				return next(ctx, j)
			}
		}
	}
	var chain belay.Chain[belay.Middleware]
	chain.Add("inner", note("inner")).Prepend("outer", note("outer"))
	var pushes belay.Chain[belay.PushMiddleware]
	pushes.Add("second", func(_ context.Context, j *belay.RawJob) error { j.Tags = append(j.Tags, "second"); return nil })
	pushes.InsertBefore("second", "first", func(_ context.Context, j *belay.RawJob) error { j.Tags = append(j.Tags, "first"); return nil })

	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), belay.Prefix(drivertest.Prefix(t)), belay.PushChain(pushes))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	greet := belay.Define[string]("Greet")
	server := belay.NewServer(client, belay.UseChain(chain), belay.Concurrency(1))
	server.Use(note("used"))
	var tags string
	greet.Handle(server, func(ctx context.Context, _ string) error {
		seen = append(seen, "handler")
		server.Stop()
		return nil
	})
	server.Use(func(next belay.Handler) belay.Handler {
		return func(ctx context.Context, j *belay.Job) error {
			tags, _ = j.Field("tags")
			return next(ctx, j)
		}
	})
	_, err = greet.Enqueue(t.Context(), client, "you")
	require.NoError(t, err)
	require.NoError(t, server.Run(t.Context()))
	require.Equal(t, []string{"outer", "inner", "used", "handler"}, seen)
	require.JSONEq(t, `["first","second"]`, tags)
}

func TestMistakesInAChainAreToldAtTheDoor(t *testing.T) {
	t.Parallel()
	var pushes belay.Chain[belay.PushMiddleware]
	nothing := func(context.Context, *belay.RawJob) error { return errors.New("never called") }
	pushes.Add("a", nothing).Add("a", nothing).InsertAfter("nobody", "b", nothing)
	d, err := goredisdriver.Open(drivertest.Redis(t).URL())
	require.NoError(t, err)
	_, err = belay.NewClient(d, belay.PushChain(pushes))
	require.ErrorContains(t, err, `"a" is in the chain already`)
	require.ErrorContains(t, err, `none called "nobody"`)

	client, err := belay.NewClient(d)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	var chain belay.Chain[belay.Middleware]
	chain.InsertBefore("nobody", "b", nil)
	chain.Add("c", nil)
	err = belay.NewServer(client, belay.UseChain(chain)).Run(t.Context())
	require.ErrorContains(t, err, `none called "nobody"`)
	require.ErrorContains(t, err, `"c" is nil`)
}
