package belay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/internal/drivertest/adapters"
	"github.com/belayq/belay/internal/drivertest/faultproxy"
)

// A server without handlers would take jobs, fail them and use up their retries.
func TestAServerWithoutHandlersDoesNotRun(t *testing.T) {
	t.Parallel()
	producer := openShared(t)
	receipt, err := producer.Push(t.Context(), belay.RawJob{Class: "A"})
	require.NoError(t, err)
	require.Equal(t, belay.StatusQueued, receipt.Status)
	for name, server := range map[string]*belay.Server{
		"alone":         newServer(t, producer, belay.ServerConfig{}),
		"with capsules": newServer(t, producer, belay.ServerConfig{Capsules: []belay.Capsule{{Name: "slow", Queues: belay.Queues("slow"), Concurrency: 1}}}),
	} {
		require.ErrorIs(t, server.RunProcess(t.Context(), belay.ProcessConfig{HealthAddr: "nowhere:-1"}), belay.ErrNoHandlers, "%s: before its port is opened", name)
		require.ErrorIs(t, server.Run(t.Context()), belay.ErrNoHandlers, name)
		require.ErrorContains(t, server.Run(t.Context()), "register handlers before Run, by Definition.Handle", name)
		require.Empty(t, server.Classes())
	}
	require.Equal(t, int64(1), waiting(t, producer), "nothing was taken")

	server := newServer(t, producer, belay.ServerConfig{})
	welcome := belay.Define[int]("Welcome")
	server.Register(welcome.Handler(func(context.Context, int) error { return nil }))
	server.HandleUnknown(idle)
	require.Equal(t, []string{"*", "Welcome"}, server.Classes())
	require.PanicsWithValue(t, "belay: Register: a registration is empty; make it by Definition.Handler", func() { server.Register(belay.Registration{}) })
	running(t, server)
	drivertest.Eventually(t, func() bool { return waiting(t, producer) == 0 }, patience, tick)
}

// What is probably a misspelled or forgotten queue is logged once, at the start, in one line for each kind.
func TestQueuesThatDoNotFitTheHandlersAreWarnedOf(t *testing.T) {
	t.Parallel()
	mail := belay.Define[int]("Mail", belay.Queue("mail"), belay.RetryQueue("again"))
	report := belay.Define[int]("Report", belay.Queue("reports"))
	plain := belay.Define[int]("Plain")
	fn := func(context.Context, int) error { return nil }
	for name, c := range map[string]struct {
		queues           []string
		capsules         []string // of the same names
		missed, unknown  []any
		classesNotServed []any
	}{
		"all fit":                     {queues: []string{"mail", "default", "reports", "again", "pushed"}},
		"in capsules too":             {capsules: []string{"mail", "reports"}},
		"one is not taken":            {queues: []string{"mail", "default"}, missed: []any{"reports"}, classesNotServed: []any{"Report"}},
		"one is misspelled":           {queues: []string{"mail", "default", "reprots"}, missed: []any{"reports"}, unknown: []any{"reprots"}, classesNotServed: []any{"Report"}},
		"nothing was said of queues":  {missed: []any{"mail", "reports"}, classesNotServed: []any{"Mail", "Report"}},
		"a capsule's is misspelled":   {queues: []string{"mail", "default", "reports"}, capsules: []string{"typo"}, unknown: []any{"typo"}},
		"what was pushed to is known": {queues: []string{"mail", "default", "reports", "pushed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			producer := openShared(t)
			_, err := producer.Push(t.Context(), belay.RawJob{Class: "A", Queue: "pushed"})
			require.NoError(t, err)
			var out drivertest.Buffer
			cfg := belay.ServerConfig{Logger: belay.Zerolog(zerolog.New(&out)), Concurrency: 1, Queues: belay.Queues(c.queues...)}
			for _, name := range c.capsules {
				cfg.Capsules = append(cfg.Capsules, belay.Capsule{Name: name, Queues: belay.Queues(name)})
			}
			server := newServer(t, producer, cfg)
			server.Register(mail.Handler(fn), report.Handler(fn), plain.Handler(fn))
			done := running(t, server)
			lines := func(message string) (found []map[string]any) {
				for line := range strings.Lines(out.String()) {
					var fields map[string]any
					require.NoError(t, json.Unmarshal([]byte(line), &fields))
					if fields["message"] == message {
						found = append(found, fields)
					}
				}
				return found
			}
			if c.unknown != nil {
				drivertest.Eventually(t, func() bool { return len(lines("taken queue does not exist")) == 1 }, patience, tick)
				require.Equal(t, c.unknown, lines("taken queue does not exist")[0]["queues"])
			}
			drivertest.Eventually(t, func() bool { return len(lines("working")) > 0 }, patience, tick)
			server.Stop()
			require.NoError(t, awaitValue(t, "the end", done))
			if c.unknown == nil {
				require.Empty(t, lines("taken queue does not exist"))
			}
			missed := lines("queue of a handled class is not taken")
			if c.missed == nil {
				require.Empty(t, missed)
				return
			}
			require.Len(t, missed, 1, "once")
			require.Equal(t, c.missed, missed[0]["queues"])
			require.Equal(t, c.classesNotServed, missed[0]["classes"])
			require.Equal(t, "warn", fmt.Sprint(missed[0]["level"]))
		})
	}
}

// Its scripts would fail later, each with another error.
func TestAnOldRedisIsRefusedByItsVersion(t *testing.T) {
	t.Parallel()
	url := drivertest.Older(t, "6.2.14")
	const says = "this is Redis 6.2.14, and Belay needs Redis 7.0 or newer"
	_, err := belay.Open(t.Context(), url, nil)
	require.ErrorContains(t, err, says)
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		client, err := belay.NewClient(open(t, url), nil)
		require.NoError(t, err, "it sends nothing")
		var out drivertest.Buffer
		server := newServer(t, client, belay.ServerConfig{Logger: belay.Zerolog(zerolog.New(&out))})
		server.HandleUnknown(idle)
		err = awaitValue(t, "the error of Run", running(t, server))
		var old *driver.OldServerError
		require.ErrorAs(t, err, &old)
		require.ErrorContains(t, err, says)
		require.NotContains(t, out.String(), "smismember", "no advice on what follows from the version")
	})
}

// A program with Server.Run sees what is wrong with Redis in its log, as one with Process or Main does. The question
// for each permission, which is long, is asked once.
func TestServerRunChecksRedisAtItsStart(t *testing.T) {
	t.Parallel()
	redis := drivertest.Start(t, "--maxmemory-policy", "allkeys-lru")
	adapters.Each(t, func(t *testing.T, open adapters.Opener) {
		proxy := faultproxy.New(t, redis.Addr())
		var asked atomic.Int32
		proxy.Add(faultproxy.Rule{On: faultproxy.Requests, Token: "known, may = pcall(redis.acl_check_cmd", Do: faultproxy.Before(func() { asked.Add(1) })})
		client, err := belay.NewClient(open(t, proxy.URL()), nil)
		require.NoError(t, err)
		var out drivertest.Buffer
		server := newServer(t, client, belay.ServerConfig{Logger: belay.Zerolog(zerolog.New(&out))})
		server.HandleUnknown(idle)
		running(t, server)
		drivertest.Eventually(t, func() bool { return strings.Contains(out.String(), `"check":"eviction"`) }, patience, tick)
		require.Equal(t, int32(1), asked.Load())
	})
}
