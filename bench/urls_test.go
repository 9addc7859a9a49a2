package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/internal/drivertest"
)

// Belay and the floors run on whatever --redis names.
func TestMeasuresTakeEachKindOfURL(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(t *testing.T) string{
		"a socket": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "redis.sock")
			drivertest.Start(t, "--unixsocket", path)
			return "unix://" + path + "?db=3"
		},
		"TLS": func(t *testing.T) string {
			authority := drivertest.NewAuthority(t)
			cert, key := authority.Issue(t, nil)
			_, addr := drivertest.StartTLS(t, authority, cert, key)
			return "rediss://" + addr + "/2?ca=" + authority.File
		},
		"sentinels": func(t *testing.T) string { return drivertest.StartSentinel(t).URL() },
		"a Cluster": func(t *testing.T) string { return drivertest.StartCluster(t, 3).URL() },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := options{redis: start(t), jobs: 200, concurrency: 10, repeat: 1}
			b, err := openBench(t.Context(), o, io.Discard)
			require.NoError(t, err)
			t.Cleanup(b.close)
			for _, m := range []measurement{drainMeasure, enqueueMeasure, memoryMeasure, backlogMeasure, rttMeasure, batchesMeasure} {
				r, err := b.measure(bounded(t), m)
				require.NoError(t, err, m.name)
				subjects := map[string]bool{}
				for _, row := range r.Rows {
					subjects[row.Subject] = true
				}
				require.Contains(t, subjects, "Belay, go-redis", m.name)
				require.Empty(t, r.LeftOut, m.name)
				if m.name != memoryMeasure.name { // whose figure does not depend on the client
					require.Contains(t, subjects, "Belay, rueidis", m.name)
					continue
				}
				require.NotContains(t, settingsOf(r, report.Belay), "payloads of 0 bytes", "the bench's own connection finds the jobs")
			}
		})
	}
}

// settingsOf returns the settings of the first row of a kind.
func settingsOf(r *report.Result, kind report.Kind) string {
	for _, row := range r.Rows {
		if row.Kind == kind {
			return row.Settings
		}
	}
	return ""
}
