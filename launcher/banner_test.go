package launcher_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

func TestTheFirstLineSaysWhatStartsOnWhichRedis(t *testing.T) {
	t.Parallel()
	server := drivertest.Start(t, "--requirepass", "s3cret")
	client, err := goredisdriver.Open("redis://:s3cret@" + server.Addr() + "/2")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	r := &rig{t: t, client: client, prefix: drivertest.Prefix(t)}
	cfg := r.config()
	cfg.Queues = []fetch.Queue{{Name: "critical"}, {Name: "mail"}}
	l := r.build(cfg)
	// A queue that is not taken is warned of, later.
	l.Handle("A", func(context.Context, *job.Job) error { return nil }, launcher.Class{Queue: "other"})
	r.start(l)
	r.eventually("it to work", func() bool { return strings.Contains(r.log.String(), `"working"`) })
	first, _, _ := strings.Cut(r.log.String(), "\n")
	var banner struct {
		Version, Redis, Message string
		Queues                  []string
		Concurrency             int
	}
	require.NoError(t, json.Unmarshal([]byte(first), &banner))
	require.NotEmpty(t, banner.Version)
	banner.Version = ""
	require.Equal(t, "redis://"+server.Addr()+"/2", banner.Redis)
	require.Equal(t, "starting", banner.Message)
	require.Equal(t, []string{"critical", "mail"}, banner.Queues)
	require.Equal(t, 4, banner.Concurrency)
	require.NotContains(t, r.log.String(), "s3cret")
}

func TestDueJobsAreLeftToOthersForThePollWait(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	cfg := r.config()
	cfg.PollWait = 1200 * time.Millisecond
	payload := job.Draft{Class: "Due", Queue: "default", ArgsJSON: "[]", CreatedAt: time.Now()}.Encode()
	r.do("ZADD", r.keys.Schedule(), "1", payload)
	l := r.build(cfg)
	ran := make(chan time.Time, 1)
	l.Handle("Due", func(context.Context, *job.Job) error { ran <- time.Now(); return nil }, launcher.Class{})
	began := time.Now()
	r.start(l)
	require.GreaterOrEqual(t, receive(t, "the run", ran).Sub(began), cfg.PollWait)
}
