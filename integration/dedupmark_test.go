package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

// Two pushes of a class that is not idempotent are two effects: both run, and the second one says of what it is
// a duplicate, through a retry too. The lock stays with the first until that has ended.
func TestADuplicateThatIsMarkedRuns(t *testing.T) {
	t.Parallel()
	eachGuild(t, func(t *testing.T, g *guild) {
		marks := &dedup.Rule{Until: dedup.UntilExecuted, TTL: time.Hour, MarkDuplicates: true}
		first := g.accepts(ofOne(marks))
		second := g.ask(ofOne(marks))
		require.Equal(t, client.StatusQueued, second.Status)
		require.Equal(t, first, second.Holder)
		g.refuses(ofOne(untilExecuted()), first)

		failed := make(chan string, 1)
		release := make(chan struct{})
		stop := g.serve(func(_ context.Context, j *job.Job) error {
			mark, _ := j.Field(dedup.DuplicateOf)
			switch {
			case j.JID() == first:
				<-release
				return nil
			case mark != `"`+first+`"`:
				t.Errorf("%s says that it is a duplicate of %q", j.JID(), mark)
			}
			failed <- j.JID()
			return errors.New("boom")
		})
		require.Equal(t, second.JID, receive(t, "the failure", failed))
		eventually(t, "it waits for its retry", func() bool { return len(g.set(g.keys.Retry())) == 1 })
		require.Contains(t, g.set(g.keys.Retry())[0], `"duplicate-of":"`+first+`"`)
		require.Len(t, g.locks(), 1)
		close(release)
		eventually(t, "the first has ended", func() bool { return len(g.locks()) == 0 })
		stop()
	})
}
