package launcher_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A process that was stopped and finishes its jobs first is alive, for as long as that takes.
func TestTheHeartBeatsUntilTheLastJobIsSettled(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		cfg := r.config()
		cfg.Beat, cfg.TTL = 100*time.Millisecond, 3*time.Second
		started, release := make(chan bool, 8), make(chan bool)
		build := func() *launcher.Launcher {
			l := r.build(cfg)
			l.Handle("Long", func(context.Context, *job.Job) error { started <- true; <-release; return nil }, launcher.Class{})
			return l
		}
		l := build()
		r.push("Long", "[]")
		w := r.start(l)
		receive(t, "the start", started)
		r.start(build()) // whose janitor would notice
		expiry := func() float64 {
			text, _ := r.do("ZSCORE", r.keys.Alive(), l.Identity()).(string)
			at, _ := strconv.ParseFloat(text, 64)
			return at
		}
		w.Stop()
		end := expiry() + 2*float64(cfg.TTL.Milliseconds())
		r.eventually("two lifetimes to pass", func() bool { return expiry() > end || strings.Contains(r.log.String(), "recovered") })
		close(release)
		w.wait(t)
		require.Equal(t, "1", r.counter(r.keys.Processed()))
		require.Empty(t, started, "it ran twice")
		require.NotContains(t, r.log.String(), "recovered")
		require.NotContains(t, r.log.String(), "ownership lost")
	})
}
