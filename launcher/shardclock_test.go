package launcher

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/job"
)

// The clocks of two Redis servers may differ, and a job's times are those of its own.
func TestAJobsTimesAreComparedWithTheClockOfItsShard(t *testing.T) {
	t.Parallel()
	client := struct{ driver.Client }{}
	l, err := New(Config{Shards: []Shard{{Name: "a", Client: client}, {Name: "b", Client: client}}})
	require.NoError(t, err)
	now := time.Now()
	l.shards[1].clock.Saw(now.Add(time.Hour), now, now)
	soon := now.Add(time.Minute)
	parsed, err := job.Parse(fmt.Sprintf(`{"class":"A","args":[],"jid":"abc","expiry":%d,"belay_deadline_ms":%d}`, soon.Unix(), soon.UnixMilli()))
	require.NoError(t, err)
	of := func(s *shard) *run {
		return &run{shard: s, job: parsed, Run: &fetch.Run{Queue: "default"}, Context: context.Background()}
	}
	require.False(t, of(l.shards[0]).dropped())
	require.True(t, of(l.shards[1]).dropped(), "a job expires by the clock of its own shard")
	left, _ := l.shards[0].timeout(parsed, &registration{})
	require.Greater(t, left, 30*time.Second)
	left, _ = l.shards[1].timeout(parsed, &registration{})
	require.Equal(t, time.Duration(1), left)
}
