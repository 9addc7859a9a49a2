package activejob_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay"
	"github.com/belayq/belay/activejob"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/scheduler"
)

// Each tick of an ActiveJob has its own id and time, overlapping ticks are skipped as those of any other
// periodic job, and a restart of the program does not change the definition.
func TestEachTickIsAnActiveJobOfItsOwn(t *testing.T) {
	t.Parallel()
	reports := belay.Define[int]("ReportJob", activejob.Unwrap())
	periodic := func(overlap client.Overlap) *scheduler.Periodic {
		tickJob := reports.Job(42, activejob.Wrap(activejob.Envelope{Locale: "de"}))
		p, err := client.Periodic{Name: "nightly", Cron: "@daily", Overlap: overlap, Job: tickJob}.Definition()
		require.NoError(t, err)
		return p
	}
	p := periodic("")
	require.Equal(t, p.Definition(), periodic("").Definition())
	require.Equal(t, client.OverlapSkip, p.Overlap)
	require.Equal(t, client.OverlapAllow, periodic(client.OverlapAllow).Overlap)
	ids := make(map[string]bool)
	for day := range 3 {
		now := time.Date(2026, 1, 1+day, 0, 0, 1, 0, time.UTC)
		tick, err := p.TickJob(now.Truncate(time.Minute), now, job.Seconds)
		require.NoError(t, err)
		require.NotNil(t, tick.Lock)
		parsed, err := job.Parse(tick.Bytes)
		require.NoError(t, err)
		e, err := activejob.Open(parsed)
		require.NoError(t, err)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, e.JobID)
		require.Equal(t, now.Format(time.RFC3339), e.EnqueuedAt)
		require.Equal(t, []string{"ReportJob", "de", "[42]"}, []string{e.JobClass, e.Locale, string(e.Arguments)})
		ids[e.JobID] = true
	}
	require.Len(t, ids, 3)
}
