package belay_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

// Middleware runs in its order, the first outermost, and each piece has a name by which another finds its
// place.
func TestMiddlewareRunsInItsOrder(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	tag := func(name string) belay.PushMiddleware {
		return func(_ context.Context, j *belay.RawJob) error { j.Tags = append(j.Tags, name); return nil }
	}
	client.Use("final", tag("final"), belay.Place{Last: true})
	client.Use("second", tag("second"))
	client.Use("replaced", tag("replaced"))
	client.Use("first", tag("first"), belay.Place{Before: "second"})
	client.Use("third", tag("third"), belay.Place{InPlaceOf: "replaced"})
	client.Use("removed", tag("removed"), belay.Place{Last: true})
	client.RemoveMiddleware("removed")
	client.Use("fourth", tag("fourth"))

	server := newServer(t, client, belay.ServerConfig{Concurrency: 1})
	var seen []string
	var tags string
	note := func(name string) belay.Middleware {
		return func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				seen = append(seen, name)
				tags, _ = j.Field("tags")
				return next(ctx, j)
			}
		}
	}
	server.Use("inner", note("inner"))
	server.Use("outer", note("outer"), belay.Place{First: true})
	server.Use("middle", note("middle"), belay.Place{After: "outer"})
	server.Use("removed", note("removed"))
	server.RemoveMiddleware("removed")
	greet := belay.Define[string]("Greet")
	greet.Handle(server, func(context.Context, string) error {
		seen = append(seen, "handler")
		server.Stop()
		return nil
	})
	_, err := greet.Enqueue(t.Context(), client, "you")
	require.NoError(t, err)
	require.NoError(t, server.Run(t.Context()))
	require.Equal(t, []string{"outer", "middle", "inner", "handler"}, seen)
	require.JSONEq(t, `["first","second","third","fourth","final"]`, tags)

	require.PanicsWithValue(t, "belay: Client.Use late after the first push: add middleware before", func() { client.Use("late", tag("late")) })
	require.PanicsWithValue(t, "belay: Server.Use late after Run: add middleware before", func() { server.Use("late", note("late")) })
	require.PanicsWithValue(t, "belay: Client.RemoveMiddleware first after the first push: remove middleware before", func() { client.RemoveMiddleware("first") })
	require.Panics(t, func() { server.RemoveMiddleware("inner") })
}

func TestMistakesWithMiddlewareAreNamed(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	nothing := func(context.Context, *belay.RawJob) error { return nil }
	require.PanicsWithValue(t, `belay: Client.RemoveMiddleware: there is no middleware called "x" in []`, func() { client.RemoveMiddleware("x") })
	client.Use("a", nothing)
	for says, use := range map[string]func(){
		`belay: Client.Use: middleware "a" is in the chain already`:               func() { client.Use("a", nothing) },
		`belay: Client.Use: middleware "b": there is none called "none" in ["a"]`: func() { client.Use("b", nothing, belay.Place{After: "none"}) },
		`belay: Client.Use: middleware "b" is given 2 places: choose one`:         func() { client.Use("b", nothing, belay.Place{First: true}, belay.Place{Last: true}) },
		`belay: Client.Use: middleware "b" is nil`:                                func() { client.Use("b", nil) },
		`belay: Server.Use: middleware "b": there is none called "none" in []`:    func() { newServer(t, client, belay.ServerConfig{}).Use("b", pass, belay.Place{Before: "none"}) },
		`belay: Use: the server is empty; make it by NewServer`:                   func() { new(belay.Server).Use("b", pass) },
	} {
		require.PanicsWithValue(t, says, use)
	}
	client.Use("a", nothing, belay.Place{InPlaceOf: "a"})
}

func pass(next belay.Handler) belay.Handler { return next }
