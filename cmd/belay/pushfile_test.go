package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestALongPushReportsItsProgress(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	began := time.Now()
	b := &bulk{cmd: &cobra.Command{}, began: began, reportedAt: began, queued: 3000, refused: 2}
	b.cmd.SetErr(&errs)
	b.progress(began.Add(1900 * time.Millisecond))
	require.Empty(t, errs.String(), "what is soon over says nothing")
	b.progress(began.Add(2 * time.Second))
	b.progress(began.Add(3 * time.Second))
	require.Equal(t, "3000 queued, 1500/s, 2 refused so far\n", errs.String())
}
