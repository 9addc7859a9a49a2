package integration

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/internal/drivertest"
)

// A stranger's first command must show the promise and leave nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	t.Run("loses nothing on its embedded Redis", func(t *testing.T) {
		demo(t)
	})
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run("loses nothing on a real Redis through "+client, func(t *testing.T) {
			server := drivertest.Start(t)
			demo(t, "--redis", server.URL(), "--client", client)
			left, err := server.Do(t.Context(), "DBSIZE")
			require.NoError(t, err)
			require.Zero(t, left, "keys are left behind")
		})
	}
}

func demo(t *testing.T, flags ...string) {
	// Its temporary folder is also the mark by which its processes are known.
	temp := t.TempDir()
	began := time.Now()
	out, errs, status := runBelay(t, []string{"TMPDIR=" + temp}, append([]string{"demo", "--json"}, flags...)...)
	took := time.Since(began)
	require.Zero(t, status, "%s\n%s", out, errs)
	var summary struct {
		Enqueued, Done, Reruns, Kills int
		Lost                          *int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &summary), "standard output is one JSON object: %s", out)
	t.Logf("in %v: %s", took.Round(time.Millisecond), out)
	require.NotNil(t, summary.Lost)
	require.Zero(t, *summary.Lost)
	require.GreaterOrEqual(t, summary.Kills, 3)
	require.Positive(t, summary.Enqueued)
	require.Equal(t, summary.Enqueued, summary.Done)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left, "files are left behind")
	require.Empty(t, processesWhose(t, "environ", temp), "processes are left behind")
}
