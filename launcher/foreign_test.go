package launcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
)

// A lock of a Ruby gem stays when Go runs its job: the first such job says so in the log.
func TestTheFirstJobThatARubyGemHasLockedIsLogged(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	ran := make(chan string, 3)
	cfg := r.config()
	cfg.Queues = []fetch.Queue{{Name: "q"}}
	l := r.build(cfg)
	l.Handle("A", func(_ context.Context, j *job.Job) error { ran <- j.JID(); return nil }, launcher.Class{})
	for n, member := range []string{`"tags":["a"]`, `"lock_digest":"uniquejobs:1"`, `"lock_digest":"uniquejobs:2"`} {
		r.do("LPUSH", r.keys.Queue("q"), fmt.Sprintf(`{"class":"A","jid":"j%d","args":[],"queue":"q",%s}`, n, member))
	}
	w := r.start(l)
	for range 3 {
		<-ran
	}
	w.Stop()
	w.wait(t)
	log := r.log.String()
	require.Equal(t, 1, strings.Count(log, "job locked by a Ruby gem; its lock is not released"), log)
	require.Contains(t, log, `"gem":"sidekiq-unique-jobs"`)
}
