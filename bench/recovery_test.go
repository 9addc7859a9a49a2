package main

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("all of a killed worker's jobs run again in another", func(t *testing.T) {
		b := quietBench(t)
		d := death{who: b.belays()[0]} // one of the two clients: it takes ten seconds, and integration has both
		require.NoError(t, b.kill(bounded(t), &d, 0))
		require.Zero(t, d.lost)
		require.Positive(t, d.first)
		require.GreaterOrEqual(t, d.last, d.first)
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	killedAt := time.Now()
	// watched is what is made of a survivor that says these events, and then nothing.
	watched := func(t *testing.T, limit time.Duration, tell func(ran func(jid int, after time.Duration))) (death, error) {
		script := "read task\n"
		tell(func(jid int, after time.Duration) {
			script += fmt.Sprintf("echo '{\"event\":\"ran\",\"jid\":\"%d\",\"unix_ns\":%d}'\n", jid, killedAt.Add(after).UnixNano())
		})
		survivor, err := subject.Start("fake", subject.Command{Path: "/bin/sh", Args: []string{"-c", script + "read end"}}, subject.Task{})
		require.NoError(t, err)
		defer survivor.Close()
		d := death{who: contender{name: "fake"}}
		return d, d.watch(bounded(t), survivor, killedAt, time.Since(killedAt)+limit)
	}

	t.Run("the first and the last run are reported, in whatever order they come", func(t *testing.T) {
		d, err := watched(t, time.Minute, func(ran func(int, time.Duration)) {
			for n := range jobsInHand {
				ran(n, time.Duration(n+1)*time.Second)
			}
		})
		require.NoError(t, err)
		require.Zero(t, d.lost)
		require.Equal(t, time.Second, d.first)
		require.Equal(t, jobsInHand*time.Second, d.last)
	})
	t.Run("what has not run within the limit is lost, and a second run makes up for none", func(t *testing.T) {
		d, err := watched(t, 4*time.Second, func(ran func(int, time.Duration)) {
			ran(1, time.Second)
			ran(1, 2*time.Second)
			ran(2, 3*time.Second)
		})
		require.NoError(t, err)
		require.Equal(t, jobsInHand-2, d.lost)
	})
	t.Run("a survivor that took a job before the kill measures nothing", func(t *testing.T) {
		_, err := watched(t, time.Minute, func(ran func(int, time.Duration)) { ran(1, -time.Millisecond) })
		require.ErrorContains(t, err, "before the victim was killed")
	})
}

func TestTell(t *testing.T) {
	b := quietBench(t)
	r := &report.Result{Metrics: recoveryMeasure.metrics}
	b.tell(r, death{who: contender{name: "forgetful"}, lost: jobsInHand})
	require.Len(t, r.Rows, 1, "what lost everything has no times")
	require.Equal(t, "lost", r.Rows[0].Metric)
	b.tell(r, death{who: contender{name: "careful"}, first: time.Second, last: 2 * time.Second})
	require.Len(t, r.Rows, 4)
}

func TestOneKillThatLosesJobsAmongManyIsSeen(t *testing.T) {
	b := &bench{progress: io.Discard}
	r := &report.Result{Measure: "recovery", Metrics: recoveryMeasure.metrics}
	who := contender{name: "Belay", kind: report.Belay}
	for range 19 {
		b.tell(r, death{who: who, first: time.Second, last: 2 * time.Second})
	}
	b.tell(r, death{who: who, first: time.Second, lost: 9})
	noteLosses(r)
	r.Finish()
	for _, text := range []string{report.Table(r), report.Markdown([]*report.Result{r})} {
		require.Contains(t, text, "9 of 200")
		require.Contains(t, text, "Belay lost jobs in 1 of 20 kills, 9 of 10 at worst")
	}

	clean := &report.Result{Metrics: recoveryMeasure.metrics}
	b.tell(clean, death{who: who, first: time.Second, last: 2 * time.Second})
	noteLosses(clean)
	clean.Finish()
	require.Empty(t, clean.Notes)
	require.Contains(t, report.Table(clean), "0 of 10")
}
