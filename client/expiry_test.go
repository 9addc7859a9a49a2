package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestPush_storesUntilWhenAJobMayStartAndRun(t *testing.T) {
	promises(t, Config{}, map[string]func(w *world){
		"counted from the push, or from the time for which it is scheduled": func(w *world) {
			now := time.Now()
			for _, j := range []struct {
				RawJob
				begin time.Time
			}{
				{RawJob{Class: "A"}, now},
				{RawJob{Class: "A", In: time.Hour}, now.Add(time.Hour)},
				{RawJob{Class: "A", At: now.Add(2 * time.Hour)}, now.Add(2 * time.Hour)},
				{RawJob{Class: "A", At: now.Add(-time.Hour)}, now},
			} {
				j.ExpiresIn, j.Deadline = 90*time.Second, time.Minute
				_, err := w.client.Push(w.Context(), j.RawJob)
				require.NoError(w, err)
				entries := w.queue(DefaultQueue)
				for _, member := range w.do("ZRANGE", w.keys.Schedule(), "0", "-1").([]any) {
					entries = append(entries, member.(string))
				}
				require.Len(w, entries, 1)
				parsed, err := job.Parse(entries[0])
				require.NoError(w, err)
				seconds, _ := parsed.Field("expires_in")
				require.Equal(w, "90", seconds)
				expiry, ok := parsed.Field("expiry")
				require.True(w, ok)
				require.Regexp(w, `^\d+\.\d+$`, expiry, "a float of seconds, as Sidekiq Pro stores it")
				deadline, _ := parsed.Deadline()
				require.WithinDuration(w, j.begin.Add(time.Minute), deadline, 30*time.Second)
				by, _ := parsed.StartBy()
				require.Equal(w, deadline, by, "the earlier one")
				w.do("DEL", w.keys.Queue(DefaultQueue), w.keys.Schedule())
			}
		},
		"only once, and only if that makes sense": func(w *world) {
			for says, j := range map[string]RawJob{
				"expires in -1s":             {Class: "A", ExpiresIn: -time.Second},
				"deadline 1µs":               {Class: "A", Deadline: time.Microsecond},
				`"expiry" is set twice`:      {Class: "A", ExpiresIn: time.Hour, Extra: []job.Edit{{Name: "expiry", JSON: "1"}}},
				`"belay_deadline_ms" is set`: {Class: "A", Deadline: time.Hour, Extra: []job.Edit{{Name: job.FieldDeadline, JSON: "1"}}},
				"at most a hundred years":    {Class: "A", ExpiresIn: 101 * 365 * 24 * time.Hour},
			} {
				_, err := w.client.Push(w.Context(), j)
				require.ErrorContains(w, err, says)
				require.ErrorContains(w, j.Check(), says)
			}
		},
	})
}

// A definition is made once, and its ticks come for years: none of them is late because the definition is old.
func TestPeriodic_countsLimitsFromTheTick(t *testing.T) {
	t.Parallel()
	p, err := Periodic{Name: "a", Cron: "@hourly", Job: RawJob{Class: "A", ExpiresIn: 90 * time.Second, Deadline: time.Hour}}.Definition()
	require.NoError(t, err)
	now := time.Now().Truncate(time.Millisecond)
	for _, unit := range []job.TimeUnit{job.Seconds, job.Millis} {
		tick, err := p.TickJob(now, now, unit)
		require.NoError(t, err)
		parsed, err := job.Parse(tick.Bytes)
		require.NoError(t, err)
		by, ok := parsed.StartBy()
		require.True(t, ok)
		require.WithinDuration(t, now.Add(90*time.Second), by, time.Millisecond)
		deadline, ok := parsed.Deadline()
		require.True(t, ok)
		require.WithinDuration(t, now.Add(time.Hour), deadline, 0)
		seconds, _ := parsed.Field("expires_in")
		require.Equal(t, "90", seconds)
	}
	p, err = Periodic{Name: "a", Cron: "@hourly", Job: RawJob{Class: "A"}}.Definition()
	require.NoError(t, err)
	tick, err := p.TickJob(now, now, job.Seconds)
	require.NoError(t, err)
	require.NotContains(t, tick.Bytes, "expiry")
	require.NotContains(t, tick.Bytes, job.FieldDeadline)
}
