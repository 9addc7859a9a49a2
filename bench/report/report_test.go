package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a small result of made up figures, finished.
func sample() *Result {
	r := &Result{
		Measure: "drain", Title: "Draining a full queue", What: "Jobs are pushed and run.", HowToRead: "More is better.",
		Command: "go run ./bench drain", Date: time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC),
		Machine: Machine{Cores: 2, CPU: "Some CPU", Kernel: "6.1", OS: "linux/amd64"}, Versions: map[string]string{"redis": "7.0.15", "go": "go1.26"},
		Metrics: []Metric{{Name: "jobs/s", Unit: "jobs/s", Plot: true}, {Name: "redis", Unit: "µs CPU/job", Less: true, Plot: true}, {Name: "calls", Unit: "per job"}},
		Notes:   []string{"Made up."},
		LeftOut: []LeftOut{{Subject: "River", Why: "no PostgreSQL | here"}},
	}
	add := func(subject string, kind Kind, which, metric string, values ...float64) {
		for _, v := range values {
			r.Add(Row{Subject: subject, Kind: kind, Case: which, Metric: metric, Settings: "as it comes"}, v)
		}
	}
	add("bare scripts", Floor, "", "jobs/s", 310_000, 330_000, 320_000)
	add("Belay", Belay, "concurrency 25", "jobs/s", 95_000, 96_000, 94_000)
	add("Belay", Belay, "concurrency 100", "jobs/s", 180_000, 170_000, 178_000)
	add("Belay", Belay, "concurrency 25", "redis", 6, 6.5, 5.5)
	add("Belay", Belay, "concurrency 100", "redis", 4, 4.5, 4.25)
	add("Belay", Belay, "concurrency 100", "calls", 0.05)
	add("asynq", Peer, "its best", "jobs/s", 12_800, 12_000, 13_000)
	add("asynq", Peer, "its best", "redis", 60, 62, 61)
	r.Finish()
	return r
}

// golden compares a text with a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./bench/report -update writes it anew")
}

func TestTable(t *testing.T)    { golden(t, "table.txt", Table(sample())) }
func TestMarkdown(t *testing.T) { golden(t, "report.md", Markdown([]*Result{sample()})) }

func TestAPeerThatFailedAfterItsFirstRunIsSeenToBeIncomplete(t *testing.T) {
	r := &Result{
		Measure: "drain", Metrics: []Metric{{Name: "jobs/s", Unit: "jobs/s", Plot: true}},
		LeftOut: []LeftOut{{Subject: "asynq", Why: "run 2 of 4: panic"}, {Subject: "River", Why: "not here"}},
	}
	for range 4 {
		r.Add(Row{Subject: "Belay", Kind: Belay, Metric: "jobs/s"}, 100)
	}
	r.Add(Row{Subject: "asynq", Kind: Peer, Case: "its best", Metric: "jobs/s"}, 10)
	r.Finish()
	for _, text := range []string{Table(r), Markdown([]*Result{r})} {
		require.Contains(t, text, "Incomplete: the figures are of what ran before it failed: asynq: run 2 of 4: panic")
		require.Contains(t, text, "Left out: River: not here")
		require.Regexp(t, `asynq[ |]+its best[ |]+1 `, text)
	}
	require.Contains(t, Markdown([]*Result{r}), "10.0 (10.0×), n=1 |")
	require.Equal(t, "median of 1 to 4 runs, whiskers from least to most", barsAre(r))
}

func TestOneRunIsNotCalledAMedian(t *testing.T) {
	r := &Result{Metrics: []Metric{{Name: "jobs/s", Unit: "jobs/s"}}}
	r.Add(Row{Subject: "Belay", Kind: Belay, Metric: "jobs/s"}, 100)
	r.Finish()
	require.Contains(t, Table(r), "Figures are of one run each; ratio is to Belay.")
	require.Equal(t, "one run each", barsAre(r))
}

func TestFinish(t *testing.T) {
	r := sample()
	row, found := r.find(Row{Subject: "asynq", Case: "its best"}, r.Metrics[0])
	require.True(t, found)
	require.Equal(t, []float64{12_800, 12_000, 13_000}, row.Values, "one a repeat, in the order in which they were taken")
	require.InDelta(t, 12_800, row.Median, 0)
	require.InDelta(t, 12_000, row.Min, 0)
	require.InDelta(t, 13_000, row.Max, 0)
	require.InDelta(t, 12_800.0/178_000, row.Ratio, 1e-9)
	require.Equal(t, "Belay, concurrency 100", row.Base)
	row, found = r.find(Row{Subject: "asynq", Case: "its best"}, r.Metrics[1])
	require.True(t, found)
	require.InDelta(t, 61/4.25, row.Ratio, 1e-9, "the base of every column is the row that is best by the headline")
}

func TestBest(t *testing.T) {
	r := sample()
	any := func(row Row) bool { return row.Kind == Belay }
	require.Equal(t, "concurrency 100", r.Best(any).Case)
	r.Metrics[0].Less = true
	require.Equal(t, "concurrency 25", r.Best(any).Case)
	require.Nil(t, r.Best(func(Row) bool { return false }))
}

func TestMedian(t *testing.T) {
	require.InDelta(t, 2.0, Median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 1.5, Median([]float64{9, 1, 2, 1}), 0)
	require.Zero(t, Median(nil))
}

func TestFigure(t *testing.T) {
	for v, text := range map[float64]string{
		178_432: "178,000", 1_780_000: "1,780,000", 999.6: "1,000", 12.345: "12.3", 4.4: "4.40", 0.05234: "0.0523", 0: "0", -3.456: "-3.46", 99.96: "100",
	} {
		require.Equal(t, text, Figure(v))
	}
	require.Equal(t, "1,234,567", Count(1_234_567))
	require.Equal(t, "-123", Count(-123))
}

func TestLatency(t *testing.T) {
	values := []float64{-250}
	for us := 1; us <= 999; us++ {
		values = append(values, float64(us))
	}
	l := NewLatency(values)
	require.InDelta(t, 500, l.At(50), 1)
	require.InDelta(t, 990, l.At(99), 2)
	require.InDelta(t, 999, l.Max(), 1)
	require.InDelta(t, -250, l.At(0.01), 0, "a job that ran early is not late")
	r := &Result{Metrics: LatencyMetrics("ms")}
	for name, ms := range l.Percentiles(1000) {
		r.Add(Row{Subject: "Belay", Kind: Belay, Metric: name}, ms)
	}
	r.Finish()
	require.Equal(t, "p50", r.Metrics[0].Name, "the headline comes first")
	require.Len(t, r.Metrics, 5)
	require.InDelta(t, 0.5, r.Best(func(Row) bool { return true }).Median, 0.002)
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := sample()
	require.NoError(t, Write(dir, r, []*Result{r}))
	text, err := os.ReadFile(filepath.Join(dir, "drain.json"))
	require.NoError(t, err)
	var read Result
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, r.Rows, read.Rows, "JSON has every value of every repeat")
	require.Equal(t, r.LeftOut, read.LeftOut)
	require.Equal(t, r.Machine, read.Machine)
	drawn, err := os.ReadFile(filepath.Join(dir, "drain.svg"))
	require.NoError(t, err)
	for _, text := range []string{r.Title, "Belay, concurrency 100", "178,000", "asynq, its best"} {
		require.Contains(t, string(drawn), text)
	}
	require.NotContains(t, string(drawn), "per job", "a metric that was not asked for has no panel")
	require.FileExists(t, filepath.Join(dir, "report.md"))
}

func TestModelOf(t *testing.T) {
	require.Equal(t, "Fast One", modelOf("processor\t: 0\nmodel name\t: Fast One\n"))
	require.Equal(t, "unknown", modelOf("Hardware\t: something else\n"))
}

func TestRoundNumbers(t *testing.T) {
	for _, most := range []float64{1, 3.4, 7, 10, 199_000, 0.02} {
		_, ticks, _ := scaleOf(Metric{}, []Row{{Median: most, Max: most}})
		require.GreaterOrEqual(t, len(ticks), 3, "%v", most)
		require.LessOrEqual(t, len(ticks), 8, "%v", most)
	}
}
