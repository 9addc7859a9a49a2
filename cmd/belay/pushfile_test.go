package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/client"
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

// A line whose rest could not be read is no job, even if it looks like one.
func TestALineThatAFailedReadCutShortIsLeftOut(t *testing.T) {
	t.Parallel()
	cut := iotest.ErrReader(errors.New("the disk is gone"))
	in := io.MultiReader(strings.NewReader(`{"class":"A"}`+"\n"+`{"class":"B"}`), cut)
	refuse := func(line int, why error) { t.Errorf("line %d: %v", line, why) }
	lines := newJobLines(t.Context(), in, client.RawJob{}, refuse)
	var classes []string
	for !lines.ended {
		for _, j := range lines.batch() {
			classes = append(classes, j.Class)
		}
	}
	require.Equal(t, []string{"A"}, classes)
	require.EqualError(t, lines.err, "read jobs: after line 1: the disk is gone")
}
