package belay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
)

type tenantKey struct{}

// stampTenant writes the tenant of the caller into each job, and that of the run into the jobs that it pushes.
func stampTenant(ctx context.Context, j *belay.RawJob) error {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	if info, inRun := belay.Info(ctx); inRun && tenant == "" {
		tenant = info.Meta["tenant"]
	}
	belay.Meta("tenant", tenant)(j)
	return nil
}

// Each way into Redis, and each way back into a queue, keeps what middleware wrote into Meta.
func TestMetaOfMiddlewareReachesTheHandlerOnEveryPath(t *testing.T) {
	t.Parallel()
	client := openShared(t)
	client.Use("tenant", stampTenant)
	server := newServer(t, client, belay.ServerConfig{})
	type run struct{ path, tenant, app string }
	seen := make(chan run, 1)
	// Each run is the first one or, if its first one is to fail, the second.
	handle := func(definition *belay.Definition[string], failing int) {
		definition.Handle(server, func(ctx context.Context, path string) error {
			info, _ := belay.Info(ctx)
			if info.Attempt <= failing {
				return belay.RetryIn(0, errors.New("the first run fails"))
			}
			seen <- run{path, info.Meta["tenant"], info.Meta["app"]}
			return nil
		})
	}
	plain := belay.Define[string]("Plain", belay.Meta("app", "shop"))
	handle(plain, 0)
	unique := belay.Define[string]("Unique", belay.Meta("app", "shop"), belay.Unique(belay.UntilExecuted))
	handle(unique, 0)
	flaky := belay.Define[string]("Flaky", belay.Meta("app", "shop"))
	handle(flaky, 1)
	parent := belay.Define[string]("Parent")
	parent.Handle(server, func(ctx context.Context, path string) error {
		_, err := plain.Enqueue(ctx, client, path)
		return err
	})
	running(t, server)

	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	once := func(definition *belay.Definition[string], options ...belay.JobOption) func(string) error {
		return func(path string) error {
			_, err := definition.Enqueue(ctx, client, path, options...)
			return err
		}
	}
	for path, push := range map[string]func(path string) error{
		"push": once(plain), "scheduled by In": once(plain, belay.In(time.Millisecond)), "PushOnce": once(plain, belay.PushOnce()),
		"scheduled by At": once(plain, belay.At(time.Now().Add(50*time.Millisecond))), "unique": once(unique),
		"unique and scheduled": once(unique, belay.In(time.Millisecond)), "retried": once(flaky), "pushed by a run": once(parent),
		"bulk": func(path string) error {
			_, err := plain.EnqueueMany(ctx, client, slices.Values([]string{path}))
			return err
		},
		"unique bulk": func(path string) error {
			_, err := unique.EnqueueMany(ctx, client, slices.Values([]string{path}))
			return err
		},
		"raw": func(path string) error {
			_, err := client.Push(ctx, plain.Job(path))
			return err
		},
	} {
		require.NoError(t, push(path), path)
		require.Equal(t, run{path, "acme", "shop"}, awaitValue(t, path, seen))
	}
	require.Equal(t, map[string]string{"app": "shop"}, plain.Job("").Meta, "middleware changes the job, not the definition")
}

// Middleware writes the locale of a request into each job that the request pushes. A handler reads it, and the
// jobs that it pushes get it too.
func ExampleMeta() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	url, stopRedis := exampleRedis()
	defer stopRedis()
	type localeKey struct{}
	client, err := belay.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	client.Use("locale", func(ctx context.Context, j *belay.RawJob) error {
		if locale, ok := ctx.Value(localeKey{}).(string); ok {
			belay.Meta("locale", locale)(j)
		}
		return nil
	})

	server, err := belay.NewServer(client, belay.ServerConfig{Queues: belay.Queues("mail"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	// With it, whatever reads the locale of a request works in a run.
	server.Use("locale", func(next belay.Handler) belay.Handler {
		return func(ctx context.Context, j *belay.Job) error {
			if locale, ok := j.Meta()["locale"]; ok {
				ctx = context.WithValue(ctx, localeKey{}, locale)
			}
			return next(ctx, j)
		}
	})
	Welcome.Handle(server, func(ctx context.Context, args WelcomeArgs) error {
		info, _ := belay.Info(ctx)
		fmt.Println(args.UserID, info.Meta["locale"], ctx.Value(localeKey{}))
		server.Stop()
		return nil
	})

	request := context.WithValue(ctx, localeKey{}, "de")
	if _, err := Welcome.Enqueue(request, client, WelcomeArgs{UserID: 42}); err != nil {
		log.Fatal(err)
	}
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 42 de de
}
