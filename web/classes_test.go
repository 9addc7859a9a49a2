package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/lua"
)

func TestClassesShowsRunsFailuresAndDurations(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	require.Contains(t, r.get("/classes").body, "No class has run in this time.")
	var runs, waits lua.Histogram
	runs[8], waits[3] = 90, 100
	now := time.Now()
	for n := range 3 {
		figures := lua.ClassFigures{Class: "Report", Processed: 100, Failed: 10, Time: 36 * time.Second, Runs: runs, Waits: waits}
		require.NoError(t, r.client.Do(t.Context(), r.keys.AddFigures([]lua.ClassFigures{figures}, now.Add(-time.Duration(n)*time.Minute)))[0].Err)
	}
	for _, window := range []string{"1h", "8h", "72h", "nonsense"} {
		got := r.get("/classes?window=" + window)
		require.Equal(t, http.StatusOK, got.status)
		require.Contains(t, got.body, "Report")
		require.Contains(t, got.body, ">300<")
		require.Contains(t, got.body, "10.0 %")
		require.Contains(t, got.body, "<polyline class=\"runs\"")
		require.Contains(t, got.body, `data-label="Mean run">400ms<`)
		require.Equal(t, window != "72h", percentile.MatchString(got.body), "percentiles are kept for eight hours")
	}
}

func TestClassesShowNoFigureThatIsNotKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	quick := lua.ClassFigures{Class: "Quick", Processed: 100, Runs: lua.Histogram{100}, Waits: lua.Histogram{90, 0, 10}}
	failing := lua.ClassFigures{Class: "Failing", Processed: 200, Failed: 200}
	require.NoError(t, r.client.Do(t.Context(), r.keys.AddFigures([]lua.ClassFigures{quick, failing}, time.Now()))[0].Err)
	body := r.get("/classes").body
	at := strings.Index(body, `data-key="Quick"`)
	require.Positive(t, at)
	for _, cell := range []string{`"Mean run">&lt; 1ms<`, `"Run p50">&lt; 20ms<`, `"Run p99">&lt; 20ms<`, `"Wait p50">&lt; 20ms<`, `"Wait p95">37ms<`, `"Total time">&lt; 1ms<`} {
		require.Contains(t, body[at:], "data-label="+cell)
	}
	require.Contains(t, body[:at], `data-label="Total time"><span class="none">–</span><`, "no run of Failing succeeded")
}

var percentile = regexp.MustCompile(`data-label="Run p95">\d+ms`)

func TestPointsFitTheirPlot(t *testing.T) {
	t.Parallel()
	runs := func(s inspect.ClassStep) int64 { return s.Runs }
	steps := []inspect.ClassStep{{Runs: 0}, {Runs: 10}, {Runs: 5}}
	require.Equal(t, "0.0,29.0 80.0,1.0 160.0,15.0", points(steps, 10, runs))
	require.Empty(t, points(steps[:1], 10, runs))
	require.Empty(t, points(steps, 0, runs))
	long := make([]inspect.ClassStep, 480)
	long[477].Runs = 7
	text := points(long, 7, runs)
	require.Contains(t, text, ",1.0", "a peak is seen however short it is")
	require.Less(t, len(text), maxPoints*12)
}

func TestAnUnfinishedStepDoesNotLookLikeAnOutage(t *testing.T) {
	t.Parallel()
	steps := []inspect.ClassStep{{Runs: 10}, {Runs: 12}, {Runs: 3}}
	require.Equal(t, steps[:2], drawn(steps), "the last minute has just begun")
	steps[2].Runs = 12
	require.Equal(t, steps, drawn(steps))
	require.Equal(t, steps[:1], drawn(steps[:1]))
	require.Empty(t, drawn(nil))
}

// Failed runs lead to a page that can have their jobs, and a page without them to the other one.
func TestFailuresOfAClassLeadToItsJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	figures := lua.ClassFigures{Class: "Report", Processed: 100, Failed: 10, Time: 36 * time.Second}
	require.NoError(t, r.client.Do(t.Context(), r.keys.AddFigures([]lua.ClassFigures{figures}, time.Now().Add(-time.Minute)))[0].Err)
	failed := func() string { r.dash.stale(); return failedOf.FindString(r.get("/classes").body) }
	require.NotContains(t, failed(), "href", "no job is left")
	r.failed(r.keys.Dead(), 1)
	require.Contains(t, failed(), `href="dead?class=Report"`)
	r.failed(r.keys.Retry(), 1)
	require.Contains(t, failed(), `href="retries?class=Report"`)
	r.do("ZADD", r.keys.Dead(), "5000000000", payload("other", "Other"))
	require.Contains(t, r.get("/retries?class=Other").body, `<a href="dead?class=Other">Look in the dead set</a>`)
	require.Contains(t, r.get("/dead?class=report").body, "No job matches. Class, error, tag and queue are whole names", "the case of letters matters")
}

var failedOf = regexp.MustCompile(`<td class="num" data-label="Failed">.*`)
