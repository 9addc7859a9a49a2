package web

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
)

func TestThePageAboutRedisShowsTheFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	page := r.get("/redis").body
	for _, name := range []string{"version", "memory", "persistence", "replication", "latency", "clients", "permissions"} {
		require.Contains(t, page, "<strong>"+name+"</strong>")
	}
	require.Contains(t, page, `<span class="tag good">ok</span>`)
}

func TestACheckupPutsTheWorstFirstAndServesSeveralRequests(t *testing.T) {
	t.Parallel()
	var c checkup
	checks := 0
	read := func(err error) (check.Findings, error) {
		return c.read(t.Context(), func(context.Context) (check.Findings, error) {
			checks++
			return check.Findings{
				{Name: "a", Severity: check.SeverityOK}, {Name: "b", Severity: check.SeverityWarn}, {Name: "c", Severity: check.SeverityBad},
			}, err
		})
	}
	away := errors.New("away")
	_, err := read(away)
	require.ErrorIs(t, err, away)
	for range 3 {
		findings, err := read(nil)
		require.NoError(t, err)
		require.Equal(t, "c", findings[0].Name)
		require.Equal(t, "a", findings[2].Name)
	}
	require.Equal(t, 2, checks, "an error is not kept, and findings are")
}
