package launcher_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A duty that Redis refuses is logged, not again and again, and is no outage: the others go on.
func TestARefusedDutyIsReportedAndStopsNoOther(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		r.do("LPUSH", r.keys.Retry(), "not a sorted set")
		l := r.build(r.config())
		ran := make(chan string, 1)
		l.Handle("Any", func(_ context.Context, j *job.Job) error { ran <- j.JID(); return nil }, launcher.Class{})
		r.start(l)
		drivertest.Eventually(t, func() bool { return strings.Contains(r.log.String(), `"call":"poll"`) }, patience, 5*time.Millisecond)
		r.push("Any", "[]")
		receive(t, "the run", ran)
		time.Sleep(time.Second) // in which the poller fails some more times
		require.Equal(t, 1, strings.Count(r.log.String(), "redis refuses"), r.log.String())
		require.NotContains(t, r.log.String(), "redis is away")
	})
}
