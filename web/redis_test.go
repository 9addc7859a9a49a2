package web

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/check"
)

func TestThePageAboutRedisShowsTheFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	page := r.get("/redis").body
	for _, name := range []string{"version", "memory", "persistence", "latency", "clients", "permissions"} {
		require.Contains(t, page, "<strong>"+name+"</strong>")
	}
	require.Contains(t, page, `<span class="tag good">ok</span>`)
	require.Equal(t, check.Findings{{Name: "c", Severity: check.SeverityBad}, {Name: "b", Severity: check.SeverityWarn}, {Name: "a", Severity: check.SeverityOK}},
		worstFirst(check.Findings{{Name: "a", Severity: check.SeverityOK}, {Name: "b", Severity: check.SeverityWarn}, {Name: "c", Severity: check.SeverityBad}}))
}

func TestASharedValueServesSeveralRequests(t *testing.T) {
	t.Parallel()
	var s shared[int]
	reads, away := 0, errors.New("away")
	get := func(every time.Duration, err error) (int, error) {
		return s.get(t.Context(), every, func(context.Context) (int, error) { reads++; return reads, err })
	}
	_, err := get(time.Hour, away)
	require.ErrorIs(t, err, away)
	for range 3 {
		value, err := get(time.Hour, nil)
		require.NoError(t, err)
		require.Equal(t, 2, value, "an error is not kept, and a value is")
	}
	value, err := get(0, nil)
	require.NoError(t, err)
	require.Equal(t, 3, value, "it is read again when it is old")
}
