package retry_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// runAll runs a job that always fails until it ends, and answers how often it ran.
func runAll(t require.TestingT, p retry.Policy, raw string, fail func() error) (runs int, end retry.Verdict) {
	at := now
	for {
		runs++
		require.LessOrEqual(t, runs, 1000, "it never dies")
		end = retry.Decide(p, retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: fail(), Now: at, Rand: always(0)})
		if end.Outcome.Exit() != job.ExitRetry {
			return runs, end
		}
		require.GreaterOrEqual(t, end.Outcome.After(), time.Duration(0))
		require.False(t, end.Exhausted)
		at = at.Add(end.Outcome.After())
		raw = end.Outcome.Payload()
	}
}

func TestDecideProperties(t *testing.T) {
	t.Parallel()
	t.Run("n_retries_are_n_plus_1_failed_runs", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.IntRange(0, 60).Draw(t, "limit")
			policy := retry.Policy{
				Formula: retry.Formula(rapid.IntRange(0, 2).Draw(t, "formula")),
				Unit:    rapid.SampledFrom([]job.TimeUnit{job.Seconds, job.Millis}).Draw(t, "unit"),
			}
			fields := `"retry":` + strconv.Itoa(limit)
			if rapid.Bool().Draw(t, "by default") && limit > 0 {
				policy.MaxRetries = limit
				fields = rapid.SampledFrom([]string{``, `"retry":true`, `"retry":null`, `"retry":"x"`, `"retry":5.0`}).Draw(t, "retry")
			}
			runs, end := runAll(t, policy, payload(fields), func() error {
				if rapid.Bool().Draw(t, "in") {
					return retry.In(time.Second, errBoom)
				}
				return errBoom
			})
			require.Equal(t, limit+1, runs)
			require.Equal(t, job.ExitDead, end.Outcome.Exit())
			require.True(t, end.Exhausted)
			dead := parse(t, end.Outcome.Payload())
			count, ok := dead.RetryCount()
			require.True(t, ok)
			require.Equal(t, limit, count)
			failedAt, ok := dead.FailedAt()
			require.True(t, ok)
			require.WithinDuration(t, now, failedAt, time.Millisecond, "the first failure's time stays")
			require.Equal(t, "[1.0]", dead.ArgsJSON())
		})
	})
	t.Run("an_operator's_retry_is_one_more_run", func(t *testing.T) {
		t.Parallel()
		// The job has died; an operator's retry takes one off the count.
		_, end := runAll(t, retry.Policy{}, payload(`"retry":2`), func() error { return errBoom })
		again := parse(t, end.Outcome.Payload()).Patch(job.SetInt("retry_count", 1))
		runs, _ := runAll(t, retry.Policy{}, again, func() error { return errBoom })
		require.Equal(t, 1, runs)
	})
	t.Run("retry_for_ends_at_the_first_failure_after_it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			within := rapid.IntRange(0, 1_000_000).Draw(t, "retry_for")
			want, at := 1, time.Duration(0)
			for ; at <= time.Duration(within)*time.Second; want++ {
				at += retry.Sidekiq8.Delay(want-1, nil)
			}
			runs, end := runAll(t, retry.Policy{Unit: job.Millis}, payload(`"retry":1,"retry_for":`+strconv.Itoa(within)), func() error { return errBoom })
			require.Equal(t, want, runs)
			require.True(t, end.Exhausted)
		})
	})
	t.Run("snoozing_uses_up_nothing", func(t *testing.T) {
		t.Parallel()
		raw := payload(`"retry":1`)
		for range 50 {
			v := retry.Decide(retry.Policy{}, retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: retry.Snooze(0), Now: now})
			require.Equal(t, job.ExitSnoozed, v.Outcome.Exit())
			require.Equal(t, raw, v.Outcome.Payload())
		}
	})
}

// FuzzDecide holds that whatever a payload says and an error says, the job gets one legal end and readable
// bytes.
func FuzzDecide(f *testing.F) {
	f.Add(payload(`"retry":3,"backtrace":true`), "boom", 0, "q")
	f.Add(payload(`"retry_for":1e999,"failed_at":-1e14,"retry_count":-9223372036854775807`), "\xff\x00", 1, "")
	f.Add(payload(`"retry_count":9223372036854775806,"retry":9223372036854775807,"queue":{}`), "", 2, "\n")
	f.Add(payload(`"retry_queue":"\ud800","error_message":[],"error_message":1,"at":1,"at":2`), "x", 3, "é")
	f.Fuzz(func(t *testing.T, raw, text string, kind int, queue string) {
		j, err := job.Parse(raw)
		if err != nil {
			t.Skip()
		}
		failure := errors.New(text)
		failure = []error{
			failure, retry.Kill(failure), retry.In(-1, failure), &retry.PanicError{Value: text, Stack: []byte(text)},
			retry.Unregistered(text), &badError{}, retry.Discard(nil), retry.Snooze(1<<63 - 1),
		}[uint(kind)%8]
		v := retry.Decide(retry.Policy{}, retry.EndedRun{Job: j, Queue: queue, Err: failure, Now: now, Rand: func(n int) int { return n - 1 }})
		require.GreaterOrEqual(t, v.Outcome.After(), time.Duration(0))
		switch v.Outcome.Exit() {
		case job.ExitDiscarded:
			require.Empty(t, v.Outcome.Payload())
			return
		case job.ExitSnoozed:
			require.Equal(t, raw, v.Outcome.Payload())
			return
		}
		require.Contains(t, []job.Exit{job.ExitRetry, job.ExitDead}, v.Outcome.Exit())
		after := parse(t, v.Outcome.Payload())
		require.Equal(t, j.ArgsJSON(), after.ArgsJSON())
		require.Equal(t, j.JID(), after.JID())
		message, ok := after.Text("error_message")
		require.True(t, ok)
		require.LessOrEqual(t, len([]rune(message)), 10_000)
		if !strings.Contains(raw, "at") {
			_, ok = after.FailedAt()
			require.True(t, ok)
		}
	})
}
