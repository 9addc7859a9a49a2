package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

func TestThePlotOfADaySurvivesARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	step := func(runs, failed int64) inspect.ClassStep { return inspect.ClassStep{Runs: runs, Failed: failed} }
	now := time.Unix(1_700_000_000, 0)
	earlier := inspect.Classes{
		At: now, From: now.Add(-25 * time.Minute), Step: inspect.Seconds{Duration: 10 * time.Minute},
		Classes: []inspect.Class{{Steps: []inspect.ClassStep{step(600, 60), step(1200, 0), step(5, 0)}}, {Steps: []inspect.ClassStep{step(600, 0), step(0, 0), step(0, 0)}}},
	}
	values := func(list []*float64) (values []any) {
		for _, value := range list {
			if value == nil {
				values = append(values, nil)
				continue
			}
			values = append(values, *value)
		}
		return values
	}
	restarted := series{}.after(earlier)
	require.Equal(t, []float64{1_700_000_000 - 900, 1_700_000_000 - 300}, restarted.At, "without the step that is still counted")
	require.Equal(t, []any{2.0, 2.0}, values(restarted.Processed))
	require.Equal(t, []any{0.1, 0.0}, values(restarted.Failed))

	seen := series{At: []float64{1_700_000_000 - 600}, Processed: []*float64{nil}, Failed: []*float64{nil}, Queues: []plotted{
		{Name: "mail", Size: []*float64{new(7.0)}, Latency: []*float64{new(1.5)}},
	}}.after(earlier)
	require.Equal(t, []float64{1_700_000_000 - 900, 1_700_000_000 - 600}, seen.At, "from its first sample on, the dashboard's own figures count")
	require.Equal(t, []any{nil, 7.0}, values(seen.Queues[0].Size))
	require.Equal(t, []any{nil, 1.5}, values(seen.Queues[0].Latency))
	require.Len(t, seen.Processed, 2)
	require.NotNil(t, series{At: []float64{}}.after(inspect.Classes{}).At, "the script reads a list")

	figures := lua.ClassFigures{Class: "Report", Processed: 600, Failed: 6}
	require.NoError(t, r.client.Do(t.Context(), r.keys.AddFigures([]lua.ClassFigures{figures}, time.Now().Add(-time.Hour)))[0].Err)
	require.Contains(t, r.get("/series.json?range=hours").body, `"processed":[0,`)
	require.Regexp(t, `"processed":\[[^\]]*,1,`, r.get("/series.json?range=hours").body)
}
