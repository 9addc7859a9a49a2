package scheduler_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// A server that closes connections with more than a few jobs to send gets smaller pages.
func TestDueJobsComeThroughASmallOutputBuffer(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"256kb", "2mb"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			server := drivertest.Start(t, "--client-output-buffer-limit", "normal", limit, limit, "0")
			client, err := goredisdriver.Open(server.URL())
			require.NoError(t, err)
			defer func() { require.NoError(t, client.Close()) }()
			r := &rig{t: t, client: client, keys: lua.NewKeys(drivertest.Prefix(t))}
			r.poller = scheduler.New(scheduler.Config{
				Round: patience, Client: client, Keys: r.keys, Clock: &lua.Clock{}, Log: slog.New(logbook.JSON(&r.log, slog.LevelDebug)), Largest: job.DefaultPayloadLimit + job.PayloadSlack,
			})
			for _, set := range []string{r.keys.Schedule(), r.keys.Retry()} {
				for range 30 {
					r.due(set, job.Draft{Class: "T", Queue: "mail", ArgsJSON: `["` + strings.Repeat("x", 200_000) + `"]`}.Encode())
				}
			}
			drivertest.Eventually(t, func() bool {
				_, _ = r.poller.Pass(t.Context(), "me")
				return r.do("LLEN", r.keys.Queue("mail")) == int64(60)
			}, 20*time.Second, time.Millisecond)
		})
	}
}
