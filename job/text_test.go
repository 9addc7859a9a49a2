package job_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestAPrintedJobShowsNoArguments(t *testing.T) {
	t.Parallel()
	j, err := job.Parse(`{"class":"Charge","jid":"217d","queue":"mail","args":["4111 1111"]}`)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%s"} {
		require.Equal(t, "Charge 217d in queue mail", fmt.Sprintf(verb, j))
		require.Equal(t, "[Charge 217d in queue mail]", fmt.Sprintf(verb, []*job.Job{j}))
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("charged", "job", j, "none", (*job.Job)(nil))
	require.Contains(t, out.String(), `"job":{"class":"Charge","jid":"217d","queue":"mail"},"none":null}`)
	require.Equal(t, "<nil>", fmt.Sprint((*job.Job)(nil)))
}
