package oracle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/integration/oracle"
)

// A timeline is all steps of one job, each with what was written.
func TestTimeline(t *testing.T) {
	t.Parallel()
	a := begin()
	for _, jid := range []string{"one", "two"} {
		a.push(payload(jid))
	}
	a.take()
	a.settle(1, 0, c("LREM "+mine+" -1", payload("one")))
	a.step(c("RPOP " + queue))
	report := a.replay(t)
	events, err := report.Timeline("one")
	require.NoError(t, err)
	var edges []string
	for _, event := range events {
		edges = append(edges, fmt.Sprint(event.Step, " ", event.Edge))
	}
	require.Equal(t, []string{"3 nowhere->queue (accepted)", "5 queue->working (taken)", "6 working->nowhere (ended)"}, edges)
	require.Contains(t, events[2].Commands, "LREM "+mine)

	require.Len(t, report.Violations, 1)
	violation := report.Violations[0]
	require.Equal(t, "two", violation.JID)
	require.Equal(t, 7, violation.Step)
	require.Equal(t, time.Unix(start, 0), violation.At)
	require.Equal(t, "RPOP "+queue, violation.Commands)
}

// A bug that breaks every job is reported a hundred times, and counted to the end.
func TestViolationsAreKeptInPartAndCountedInFull(t *testing.T) {
	t.Parallel()
	a := begin()
	for n := range 1234 {
		a.push(payload(fmt.Sprint(n)))
		a.step(c("RPOP " + queue))
	}
	report := a.replay(t)
	require.Len(t, report.Violations, 100)
	require.Equal(t, 1134, report.More)
	require.Equal(t, "oracle: 2,470 steps, 1,234 jobs, 1,234 violations (1,234 lost)", report.String())
}

// Reading a long log takes moments, and memory only for jobs that live. The speed is logged, not judged.
func TestALongLogIsReadQuickly(t *testing.T) {
	const jobs = 4_000
	a := begin()
	for n := range jobs {
		jid := fmt.Sprintf("%024d", n)
		a.push(payload(jid))
		a.take()
		a.settle(1, 1, c("LREM "+mine+" -1", payload(jid)), c("ZADD retry 1", payload(jid, failed)))
		a.step(c("ZREM retry", payload(jid, failed)), c("LPUSH "+queue, payload(jid, failed, fmt.Sprintf(`"enqueued_at":%d`, start))))
		a.take()
		a.settle(1, 0, c("LREM "+mine+" -1", payload(jid, failed, fmt.Sprintf(`"enqueued_at":%d`, start))))
	}
	dir := a.save(t, "")
	began := time.Now()
	report, err := oracle.Replay(dir)
	took := time.Since(began)
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	require.Equal(t, jobs, report.Done)
	t.Logf("%v; %.0f steps a second", report, float64(report.Steps)/took.Seconds())
}
