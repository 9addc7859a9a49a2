package belaytest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/belaytest"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
)

// handlers are the handlers, by class.
var handlers = map[string]func(ctx context.Context) error{
	"Done":     func(context.Context) error { return nil },
	"Fails":    func(context.Context) error { return errBroken },
	"Panics":   func(context.Context) error { panic("the printer is on fire") },
	"Killed":   func(context.Context) error { return belay.Kill(errBroken) },
	"Discards": func(context.Context) error { return belay.Discard(errBroken) },
	"Snoozes":  func(context.Context) error { return belay.Snooze(time.Hour) },
	"Again":    func(context.Context) error { return belay.RetryIn(time.Hour, errBroken) },
	"Late": func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	},
}

// A job ends in the kit as in production: this test pushes the same jobs to the kit and to a real Redis, and
// compares all jobs that are left in them, without ids and times.
func TestAJobEndsAsOnARealRedis(t *testing.T) {
	t.Parallel()
	register := func(s *belay.Server) {
		for class, do := range handlers {
			belay.Define[mail](class, belay.Timeout(20*time.Millisecond)).Handle(s, func(ctx context.Context, _ mail) error { return do(ctx) })
		}
		s.Use("note", func(next belay.Handler) belay.Handler {
			return func(ctx context.Context, j *belay.Job) error {
				if err := next(ctx, j); err != nil && j.Class() == "Fails" {
					return fmt.Errorf("in the middleware: %w", err)
				} else if err != nil {
					return err
				}
				return nil
			}
		})
	}
	pushAll := func(c *belay.Client) (jobs int) {
		classes := []string{"Unknown"}
		for class := range handlers {
			classes = append(classes, class)
		}
		for _, class := range classes {
			for _, item := range []belay.RawJob{{}, {Retry: retries(0)}, {NoDead: true, Retry: retries(0)}, {Backtrace: 1}, {ArgsJSON: `["x"]`}} {
				item.Class = class
				if item.ArgsJSON == "" {
					item.Args = []any{42, "short"}
				}
				_, err := c.Push(t.Context(), item)
				require.NoError(t, err)
				jobs++
			}
		}
		return jobs
	}

	k := belaytest.New(t)
	k.OnFailure(func(belaytest.Run) {})
	k.Serve(register)
	jobs := pushAll(k.Client())
	require.Len(t, k.Drain(), jobs)

	prefix := strings.TrimSuffix(drivertest.Prefix(t), ":")
	client, err := belay.Open(t.Context(), drivertest.Redis(t).URL(), &belay.ClientConfig{Prefix: prefix})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	pushAll(client)
	server, err := belay.NewServer(client, belay.ServerConfig{Concurrency: 1})
	require.NoError(t, err)
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.Background()) }()
	want := left(t, k.Client(), "")
	require.Eventually(t, func() bool {
		return len(left(t, client, prefix+":")) == len(want) && ran(t, client, prefix+":") == ran(t, k.Client(), "")
	},
		20*time.Second, 10*time.Millisecond)
	server.Stop()
	require.NoError(t, <-ended)
	require.ElementsMatch(t, left(t, client, prefix+":"), want)
	require.Greater(t, len(want), jobs/2)
}

func retries(n int) job.RetryRule { return job.RetryRule{Kind: job.RetryLimit, Limit: n} }

func ran(t *testing.T, c *belay.Client, prefix string) string {
	t.Helper()
	replies := c.Driver().Do(t.Context(), driver.Command("MGET", prefix+"stat:processed", prefix+"stat:failed"))
	require.NoError(t, replies[0].Err)
	return fmt.Sprint(replies[0].Value)
}

// left returns the jobs in a keyspace, each with its place, without the fields that differ from run to run.
func left(t *testing.T, c *belay.Client, prefix string) (jobs []string) {
	t.Helper()
	for place, command := range map[string][]string{
		"queue":    {"LRANGE", prefix + "queue:default", "0", "-1"},
		"schedule": {"ZRANGE", prefix + "schedule", "0", "-1"},
		"retry":    {"ZRANGE", prefix + "retry", "0", "-1"},
		"dead":     {"ZRANGE", prefix + "dead", "0", "-1"},
	} {
		reply := c.Driver().Do(t.Context(), driver.Command(command...))[0]
		require.NoError(t, reply.Err)
		for _, payload := range reply.Value.([]any) {
			var fields map[string]any
			require.NoError(t, json.Unmarshal([]byte(payload.(string)), &fields))
			for _, volatile := range []string{"jid", "created_at", "enqueued_at", "failed_at", "error_backtrace"} {
				if _, ok := fields[volatile]; ok {
					fields[volatile] = "any"
				}
			}
			text, err := json.Marshal(fields)
			require.NoError(t, err)
			jobs = append(jobs, place+" "+string(text))
		}
	}
	return jobs
}
