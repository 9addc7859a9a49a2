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

// A batch of Sidekiq Pro does not learn that Go has run its member: the first one of each class says so.
func TestTheFirstMemberOfASidekiqProBatchIsLoggedForEachClass(t *testing.T) {
	t.Parallel()
	r := oneClient(t)
	ran := make(chan string, 6)
	cfg := r.config()
	cfg.Queues = []fetch.Queue{{Name: "q"}}
	l := r.build(cfg)
	for _, class := range []string{"A", "B", launcher.AnyClass} {
		l.Handle(class, func(_ context.Context, j *job.Job) error { ran <- j.JID(); return nil }, launcher.Class{})
	}
	for n, class := range []string{"A", "A", "B", "C", "D"} {
		r.do("LPUSH", r.keys.Queue("q"), fmt.Sprintf(`{"class":%q,"jid":"j%d","args":[],"queue":"q","bid":"b%d"}`, class, n, n))
	}
	r.do("LPUSH", r.keys.Queue("q"), `{"class":"A","jid":"plain","args":[],"queue":"q"}`)
	w := r.start(l)
	for range 6 {
		<-ran
	}
	w.Stop()
	w.wait(t)
	log := r.log.String()
	require.Equal(t, 3, strings.Count(log, "job of a batch of Sidekiq Pro; the batch will not end"), log)
	for _, class := range []string{"A", "B"} {
		require.Equal(t, 1, strings.Count(log, `"class":"`+class+`","advice"`), log)
	}
}
