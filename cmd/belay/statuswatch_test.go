package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/inspect"
)

// pictures is a reader of statuses that are a second apart, which is interrupted after the last; a nil is an
// outage.
func pictures(stop func(), all ...*inspect.Status) func() (inspect.FleetStatus, error) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() (inspect.FleetStatus, error) {
		if len(all) == 0 {
			stop()
			return inspect.FleetStatus{}, context.Canceled
		}
		next := all[0]
		all = all[1:]
		at = at.Add(time.Second)
		if next == nil {
			return inspect.FleetStatus{}, errors.New("connection refused")
		}
		next.At = at
		return inspect.FleetStatus{Status: *next}, nil
	}
}

func TestStatusWatch(t *testing.T) {
	t.Parallel()
	watch := func(asJSON bool, all ...*inspect.Status) (out, errs string) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		var o, e bytes.Buffer
		cmd := withJSON(&cobra.Command{})
		cmd.SetOut(&o)
		cmd.SetErr(&e)
		require.NoError(t, cmd.Flags().Set("json", strconv.FormatBool(asJSON)))
		require.NoError(t, watchStatus(ctx, cmd, time.Millisecond, pictures(stop, all...)))
		return o.String(), e.String()
	}
	t.Run("prints_jobs_per_second", func(t *testing.T) {
		t.Parallel()
		out, _ := watch(false, &inspect.Status{Processed: 100}, &inspect.Status{Processed: 350, Failed: 5})
		require.Equal(t, 2, strings.Count(out, "PROCESSED"))
		require.Contains(t, out, "250 jobs/s, 5 of them failed")
		require.NotContains(t, out, "\x1b", "what is no terminal is not cleared")
	})
	t.Run("writes_one_object_a_line", func(t *testing.T) {
		t.Parallel()
		out, _ := watch(true, &inspect.Status{Processed: 1}, &inspect.Status{Processed: 2})
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 2)
		var last inspect.Status
		require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
		require.Equal(t, int64(2), last.Processed)
	})
	t.Run("reports_an_outage_in_one_plain_line", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		var errs bytes.Buffer
		cmd := withJSON(&cobra.Command{})
		cmd.SetErr(&errs)
		reads := 0
		require.NoError(t, watchStatus(ctx, cmd, time.Millisecond, func() (inspect.FleetStatus, error) {
			if reads++; reads > 1 {
				stop()
			}
			return inspect.FleetStatus{}, errors.New("dial redis://:secret@host: \x1b[2Jrefused\nshard b: refused")
		}))
		require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		require.Contains(t, errs.String(), "dial redis://(hidden)@host: ")
		require.NotContains(t, errs.String(), "\x1b")
	})
	t.Run("reports_an_outage_once_and_goes_on", func(t *testing.T) {
		t.Parallel()
		out, errs := watch(false, &inspect.Status{}, nil, nil, &inspect.Status{Processed: 7})
		require.Equal(t, 1, strings.Count(errs, "connection refused"))
		require.Equal(t, 2, strings.Count(out, "PROCESSED"))
	})
	t.Run("refuses_too_short_an_interval", func(t *testing.T) {
		t.Parallel()
		answer := newHouse(t).invoke("", "status", "--watch", "--every", "1ms")
		require.Equal(t, 2, answer.code)
		require.Contains(t, answer.errs, "at least 100ms")
	})
}

// A shard that is away has all columns, so that those of the others stay in line.
func TestAShardThatIsAwayKeepsTheColumns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	rows := newTable(&out)
	read := inspect.Status{Processed: 1234567, Enqueued: 7}
	printFleet(rows, inspect.FleetStatus{Shards: []inspect.ShardStatus{
		{Name: "0", Status: read}, {Name: "1", Problem: "connection refused"}, {Name: "2", Status: read},
	}})
	require.NoError(t, rows.Flush())
	_, table, found := strings.Cut(out.String(), "\nSHARD")
	require.True(t, found, out.String())
	lines := strings.Split(table, "\n")
	require.Equal(t, "0      1234567    0       7         0          0        0     0", lines[1])
	require.Equal(t, "1      away       -       -         -          -        -     -", lines[2])
	require.Equal(t, "2      1234567    0       7         0          0        0     0", lines[3])
}
