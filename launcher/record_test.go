package launcher_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// Without its record a process that dies would leave its jobs where no janitor looks.
func TestASessionRecordThatIsDeletedIsRestored(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, r *rig) {
		l := r.build(r.config())
		began, goOn := make(chan bool), make(chan bool)
		l.Handle("Long", func(ctx context.Context, _ *job.Job) error { began <- true; <-goOn; return ctx.Err() }, launcher.Class{})
		r.push("Long", "[]")
		r.start(l)
		receive(t, "the start", began)
		identity := l.Identity()
		before := r.do("HMGET", r.keys.Record(identity), "queues", "ttl_ms", "beat_ms", "concurrency")
		for range 2 {
			r.do("DEL", r.keys.Record(identity))
			r.eventually("the record", func() bool { return r.do("EXISTS", r.keys.Record(identity)) == int64(1) })
		}
		require.Equal(t, before, r.do("HMGET", r.keys.Record(identity), "queues", "ttl_ms", "beat_ms", "concurrency"))
		require.Equal(t, identity, l.Identity())
		close(goOn)
		r.eventually("the job to be settled", func() bool { return r.counter(r.keys.Processed()) == "1" })
		require.Empty(t, r.set(r.keys.Retry()))
		require.Equal(t, 2, strings.Count(r.log.String(), "session record restored"), r.log.String())
		require.NotContains(t, r.log.String(), "forgotten")
		require.NotContains(t, r.log.String(), "ownership lost")
	})
}
