package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

var (
	errBoom = errors.New("boom")
	now     = time.Unix(1700000000, 500e6)
)

// always returns dice that always show n.
func always(n int) func(int) int { return func(int) int { return n } }

// payload puts fields into an otherwise good payload of queue "q".
func payload(fields string) string {
	text := `{"class":"C","args":[1.0],"jid":"j","queue":"q"`
	if fields != "" {
		text += "," + fields
	}
	return text + "}"
}

func parse(t require.TestingT, raw string) *job.Job {
	j, err := job.Parse(raw)
	require.NoError(t, err, raw)
	return j
}

// badError is an error whose every method panics.
type badError struct{}

func (*badError) Error() string      { panic("no text") }
func (*badError) Unwrap() error      { panic("no cause") }
func (*badError) ErrorClass() string { panic("no class") }

// ringError wraps itself.
type ringError struct{}

func (e *ringError) Error() string { return "ring" }
func (e *ringError) Unwrap() error { return e }

// An hour before now, as both units write it.
const (
	anHourAgo       = `1699996400.5`
	anHourAgoMillis = `1699996400500`
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const first = `"error_message":"boom","error_class":"error","failed_at":1700000000.5,"retry_count":0`
	const dice3 = 3 * time.Second
	rows := []struct {
		promise string
		fields  string // what the payload says besides class, args, jid and queue "q"
		err     error
		with    func(*retry.Policy, *retry.EndedRun)
		exit    job.Exit
		after   time.Duration
		want    string // the payload's fields afterwards; "-" when it does not live on
		counts  string // p and f
		spent   bool   // Exhausted
		reason  string
	}{
		{promise: "no_error_is_done", exit: job.ExitDone, want: "-", counts: "p", reason: "done"},
		{promise: "no_error_is_done_though_we_had_cancelled", with: cancelledByUs, exit: job.ExitDone, want: "-", counts: "p", reason: "done"},
		{promise: "an_error_we_brought_about_is_requeued", err: context.Canceled, with: cancelledByUs, exit: job.ExitRequeued, want: "-", reason: "cancelled by us"},
		{promise: "a_requeue_counts_nothing", err: fmt.Errorf("wrapped: %w", retry.Requeue(errBoom)), exit: job.ExitRequeued, want: "-", reason: "requeued by its handler"},
		{promise: "a_requeue_keeps_what_may_not_be_retried", fields: `"retry":false`, err: retry.Requeue(nil), exit: job.ExitRequeued, want: "-", reason: "requeued by its handler"},
		{promise: "even_a_panic_we_brought_about_is_requeued", err: &retry.PanicError{Value: 1}, with: cancelledByUs, exit: job.ExitRequeued, want: "-", reason: "cancelled by us"},
		{promise: "even_what_the_handler_asked_while_cancelled_is", err: retry.Kill(errBoom), with: cancelledByUs, exit: job.ExitRequeued, want: "-", reason: "cancelled by us"},

		{promise: "snooze_changes_no_byte_and_counts_nothing", fields: `"retry":0,"enqueued_at":1.5`, err: retry.Snooze(time.Hour),
			exit: job.ExitSnoozed, after: time.Hour, want: `"retry":0,"enqueued_at":1.5`, reason: "snoozed by its handler"},
		{promise: "snooze_is_found_through_wrappers", fields: `"retry":true`, err: fmt.Errorf("a: %w", errors.Join(errBoom, retry.Snooze(time.Second))),
			exit: job.ExitSnoozed, after: time.Second, want: `"retry":true`, reason: "snoozed by its handler"},
		{promise: "a_rate_limit_waits_at_the_gate", fields: `"retry":0`, err: fmt.Errorf("a: %w", retry.RateLimited(time.Hour)), with: gated,
			exit: job.ExitWaits, after: time.Hour, want: "-", reason: "rate limited, says its handler"},
		{promise: "a_rate_limit_without_a_gate_is_a_snooze", fields: `"retry":0`, err: retry.RateLimited(time.Hour),
			exit: job.ExitSnoozed, after: time.Hour, want: `"retry":0`, reason: "snoozed by its handler"},
		{promise: "over_a_limit_snoozes_for_minutes", fields: `"retry":0`, err: fmt.Errorf("a: %w", retry.ErrOverLimit),
			exit: job.ExitSnoozed, after: 5*time.Minute + time.Second + dice3, want: `"retry":0,"overrated":1`, reason: "snoozed: over its limit"},
		{promise: "over_a_limit_snoozes_longer_each_time", fields: `"overrated":19`, err: retry.ErrOverLimit,
			exit: job.ExitSnoozed, after: 100*time.Minute + time.Second + dice3, want: `"overrated":20`, reason: "snoozed: over its limit"},
		{promise: "over_a_limit_too_often_is_a_failure", fields: `"retry":0,"overrated":20`, err: retry.ErrOverLimit, counts: "pf", spent: true,
			exit: job.ExitDead, reason: "all 0 retries failed",
			want: `"retry":0,"overrated":20,"error_message":"belay: over the limit: no slot was free in time","error_class":"error","failed_at":1700000000.5,"retry_count":0`},
		{promise: "discard_keeps_nothing", fields: `"retry":5`, err: retry.Discard(errBoom), exit: job.ExitDiscarded, want: "-", counts: "pf", reason: "discarded by its handler"},
		{promise: "discard_without_a_cause_is_no_failure", err: retry.Discard(nil), exit: job.ExitDiscarded, want: "-", counts: "p", reason: "discarded by its handler"},
		{promise: "the_outermost_word_counts", err: retry.Discard(retry.Kill(errBoom)), exit: job.ExitDiscarded, want: "-", counts: "pf", reason: "discarded by its handler"},
		{promise: "kill_is_dead_at_once_with_its_error", fields: `"retry":5`, err: retry.Kill(errBoom),
			exit: job.ExitDead, want: `"retry":5,` + first, counts: "pf", spent: true, reason: "killed by its handler"},
		{promise: "kill_says_so_without_a_cause", fields: `"retry":5`, err: retry.Kill(nil), exit: job.ExitDead, counts: "pf", spent: true, reason: "killed by its handler",
			want: `"retry":5,"error_message":"killed by its handler","error_class":"error","failed_at":1700000000.5,"retry_count":0`},
		{promise: "kill_honours_dead_false", fields: `"dead":false`, err: retry.Kill(errBoom), exit: job.ExitDiscarded, want: "-", counts: "pf", spent: true, reason: "killed by its handler; not kept"},
		{promise: "kill_of_a_job_that_is_never_retried_is_dead", fields: `"retry":false`, err: retry.Kill(errBoom),
			exit: job.ExitDead, want: `"retry":false,` + first, counts: "pf", spent: true, reason: "killed by its handler"},

		{promise: "the_first_failure_is_count_0", fields: `"retry":true`, err: errBoom,
			exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_null_count_is_no_count", fields: `"retry":true,"retry_count":null,"failed_at":1.5`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3,
			want: `"retry":true,"retry_count":0,"failed_at":1700000000.5,"error_message":"boom","error_class":"error"`, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_later_failure_counts_on_and_keeps_the_first_time", fields: `"retry":true,"failed_at":` + anHourAgoMillis + `,"retry_count":1`, err: errBoom,
			exit: job.ExitRetry, after: 31*time.Second + dice3, counts: "pf", reason: "retry 3 of 25",
			want: `"retry":true,"failed_at":` + anHourAgoMillis + `,"retry_count":2,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "a_count_of_minus_1_becomes_0_and_has_failed_before", fields: `"retry":true,"failed_at":` + anHourAgo + `,"retry_count":-1`, err: errBoom,
			exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"failed_at":` + anHourAgo + `,"retry_count":0,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "a_count_without_a_first_time_is_given_one", fields: `"retry":true,"retry_count":4`, err: errBoom,
			exit: job.ExitRetry, after: (625+15)*time.Second + dice3, counts: "pf", reason: "retry 6 of 25",
			want: `"retry":true,"retry_count":5,"error_message":"boom","error_class":"error","retried_at":1700000000.5,"failed_at":1700000000.5`},
		{promise: "an_earlier_error_is_replaced_where_it_stands", fields: `"error_class":"A","retry":1,"error_backtrace":"eJw","error_message":"old"`, err: errBoom,
			exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 1",
			want: `"error_class":"error","retry":1,"error_message":"boom","failed_at":1700000000.5,"retry_count":0`},
		{promise: "milliseconds_are_written_when_configured", fields: `"retry":true`, err: errBoom, with: millis, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"boom","error_class":"error","failed_at":1700000000500,"retry_count":0`},

		{promise: "retry_false_keeps_nothing", fields: `"retry":false`, err: errBoom, exit: job.ExitDiscarded, want: "-", counts: "pf", reason: "not to be retried"},
		{promise: "retry_false_keeps_nothing_even_of_a_panic", fields: `"retry":false`, err: &retry.PanicError{Value: 1}, exit: job.ExitDiscarded, want: "-", counts: "pf", reason: "not to be retried"},
		{promise: "retry_0_is_dead_at_once", fields: `"retry":0`, err: errBoom, exit: job.ExitDead, want: `"retry":0,` + first, counts: "pf", spent: true, reason: "all 0 retries failed"},
		{promise: "retry_below_0_is_dead_at_once", fields: `"retry":-1`, err: errBoom, exit: job.ExitDead, want: `"retry":-1,` + first, counts: "pf", spent: true, reason: "all 0 retries failed"},
		{promise: "retry_0_with_dead_false_keeps_nothing", fields: `"retry":0,"dead":false`, err: errBoom, exit: job.ExitDiscarded, want: "-", counts: "pf", spent: true, reason: "all 0 retries failed; not kept"},
		{promise: "the_last_retry_is_still_one", fields: `"retry":2,"failed_at":` + anHourAgo + `,"retry_count":0`, err: errBoom, exit: job.ExitRetry, after: 16*time.Second + dice3, counts: "pf", reason: "retry 2 of 2",
			want: `"retry":2,"failed_at":` + anHourAgo + `,"retry_count":1,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "after_the_last_retry_it_is_dead", fields: `"retry":2,"failed_at":` + anHourAgo + `,"retry_count":1`, err: errBoom, exit: job.ExitDead, counts: "pf", spent: true, reason: "all 2 retries failed",
			want: `"retry":2,"failed_at":` + anHourAgo + `,"retry_count":2,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "a_missing_retry_is_the_default_and_is_written", err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_null_retry_is_the_default", fields: `"retry":null`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":null,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_retry_that_is_a_string_is_the_default", fields: `"retry":"3"`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":"3",` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_retry_with_a_fraction_is_the_default", fields: `"retry":3.0`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":3.0,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "the_worker_sets_the_default", fields: `"retry":true`, err: errBoom, with: maxRetries(7), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first + `,"belay_worker_retries":7`, counts: "pf", reason: "retry 1 of 7"},
		{promise: "the_worker_can_set_none", fields: `"retry":true`, err: errBoom, with: maxRetries(-1), exit: job.ExitDead, want: `"retry":true,` + first + `,"belay_worker_retries":0`, counts: "pf", spent: true, reason: "all 0 retries failed"},

		{promise: "retry_for_begins_with_the_first_failure", fields: `"retry":true,"retry_for":60`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,"retry_for":60,` + first, counts: "pf", reason: "retry 1 within 1m0s"},
		{promise: "retry_for_does_not_count", fields: `"retry":1,"retry_for":3600,"failed_at":` + anHourAgoMillis + `,"retry_count":2`, err: errBoom, exit: job.ExitRetry, after: 96*time.Second + dice3, counts: "pf", reason: "retry 4 within 1h0m0s",
			want: `"retry":1,"retry_for":3600,"failed_at":` + anHourAgoMillis + `,"retry_count":3,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "retry_for_ends_by_time_alone", fields: `"retry":true,"retry_for":3599,"failed_at":` + anHourAgo + `,"retry_count":0`, err: errBoom, exit: job.ExitDead, counts: "pf", spent: true, reason: "not done within 59m59s",
			want: `"retry":true,"retry_for":3599,"failed_at":` + anHourAgo + `,"retry_count":1,"error_message":"boom","error_class":"error","retried_at":1700000000.5`},
		{promise: "retry_for_without_a_first_time_begins_now", fields: `"retry":true,"retry_for":60,"retry_count":0`, err: errBoom, exit: job.ExitRetry, after: 16*time.Second + dice3, counts: "pf", reason: "retry 2 within 1m0s",
			want: `"retry":true,"retry_for":60,"retry_count":1,"error_message":"boom","error_class":"error","retried_at":1700000000.5,"failed_at":1700000000.5`},
		{promise: "retry_for_that_is_a_string_is_none", fields: `"retry":0,"retry_for":"60"`, err: errBoom, exit: job.ExitDead, want: `"retry":0,` + first, counts: "pf", spent: true, reason: "all 0 retries failed"},

		{promise: "in_waits_exactly_so_long", fields: `"retry":true`, err: retry.In(time.Minute, errBoom), exit: job.ExitRetry, after: time.Minute, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "in_goes_before_the_class'_own_delay", fields: `"retry":true`, err: retry.In(0, errBoom), with: backoff(time.Hour), exit: job.ExitRetry, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "in_uses_up_a_retry", fields: `"retry":0`, err: retry.In(time.Minute, errBoom), exit: job.ExitDead, want: `"retry":0,` + first, counts: "pf", spent: true, reason: "all 0 retries failed"},
		{promise: "in_does_not_make_a_job_retry_that_never_does", fields: `"retry":false`, err: retry.In(time.Minute, errBoom), exit: job.ExitDiscarded, want: "-", counts: "pf", reason: "not to be retried"},
		{promise: "in_without_a_cause_says_what_was_asked", fields: `"retry":true`, err: retry.In(time.Minute, nil), exit: job.ExitRetry, after: time.Minute, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"retry in 1m0s","error_class":"error","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_class'_own_delay_is_exact", fields: `"retry":true`, err: errBoom, with: backoff(time.Hour), exit: job.ExitRetry, after: time.Hour, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_class'_delay_of_0_is_no_delay_of_its_own", fields: `"retry":true`, err: errBoom, with: backoff(0), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_class'_delay_below_0_is_none_either", fields: `"retry":true`, err: errBoom, with: backoff(-time.Hour), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_backoff_that_panics_is_none", fields: `"retry":true`, err: errBoom, with: panickingBackoff, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},

		{promise: "the_queue_it_was_taken_from_is_written", fields: `"retry":true`, err: errBoom, with: taken("other"), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first + `|queue=other`, counts: "pf", reason: "retry 1 of 25"},
		{promise: "retry_queue_goes_before_it", fields: `"retry":true,"retry_queue":"low"`, err: errBoom, with: taken("other"), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,"retry_queue":"low",` + first + `|queue=low`, counts: "pf", reason: "retry 1 of 25"},
		{promise: "an_empty_or_odd_retry_queue_is_none", fields: `"retry":true,"retry_queue":7`, err: errBoom, with: taken("other"), exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,"retry_queue":7,` + first + `|queue=other`, counts: "pf", reason: "retry 1 of 25"},
		{promise: "a_stored_at_is_taken_out", fields: `"at":null,"retry":true`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,` + first, counts: "pf", reason: "retry 1 of 25"},
		{promise: "unknown_fields_stay_byte_for_byte", fields: `"retry":true,"x_future": {"a":[1.0]} ,"bid":"\u00e9"`, err: errBoom, exit: job.ExitRetry, after: 15*time.Second + dice3, want: `"retry":true,"x_future": {"a":[1.0]} ,"bid":"\u00e9",` + first, counts: "pf", reason: "retry 1 of 25"},

		{promise: "a_timeout_of_its_own_is_a_failure", fields: `"retry":true`, err: fmt.Errorf("call: %w", context.DeadlineExceeded), exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"call: context deadline exceeded","error_class":"context.deadlineExceededError","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_cancel_that_is_not_ours_is_a_failure", fields: `"retry":true`, err: context.Canceled, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"context canceled","error_class":"error","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_panic_is_a_failure", fields: `"retry":true`, err: &retry.PanicError{Value: "oh"}, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"oh","error_class":"panic","failed_at":1700000000.5,"retry_count":0`},
		{promise: "what_is_panicked_with_is_not_said", fields: `"retry":true`, err: &retry.PanicError{Value: retry.Discard(errBoom)}, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"boom","error_class":"panic","failed_at":1700000000.5,"retry_count":0`},
		{promise: "what_is_said_around_a_panic_is", fields: `"retry":true`, err: retry.Kill(&retry.PanicError{Value: 1}), exit: job.ExitDead, counts: "pf", spent: true, reason: "killed by its handler",
			want: `"retry":true,"error_message":"1","error_class":"panic","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_Goexit_is_a_failure", fields: `"retry":true`, err: retry.ErrGoexit, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"` + retry.ErrGoexit.Error() + `","error_class":"runtime.Goexit","failed_at":1700000000.5,"retry_count":0`},
		{promise: "an_unknown_class_is_retried_with_backoff", fields: `"retry":true`, err: retry.Unregistered("C"), exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"no handler is registered for the class \"C\"","error_class":"UnregisteredClass","failed_at":1700000000.5,"retry_count":0`},
		{promise: "an_unknown_class_that_is_never_retried_is_kept", fields: `"retry":false`, err: retry.Unregistered("C"), exit: job.ExitDead, counts: "pf", reason: "class unknown, and not to be retried",
			want: `"retry":false,"error_message":"no handler is registered for the class \"C\"","error_class":"UnregisteredClass","failed_at":1700000000.5,"retry_count":0`},
		{promise: "an_error_whose_methods_panic_is_a_failure", fields: `"retry":true`, err: &badError{}, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"(no text: the error's own method panicked)","error_class":"retry_test.badError","failed_at":1700000000.5,"retry_count":0`},
		{promise: "an_error_that_wraps_itself_is_a_failure", fields: `"retry":true`, err: &ringError{}, exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"ring","error_class":"retry_test.ringError","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_nil_pointer_is_a_failure", fields: `"retry":true`, err: (*fs.PathError)(nil), exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"(no text: the error's own method panicked)","error_class":"fs.PathError","failed_at":1700000000.5,"retry_count":0`},
		{promise: "a_nil_word_is_no_word", fields: `"retry":true`, err: (*retry.AskError)(nil), exit: job.ExitRetry, after: 15*time.Second + dice3, counts: "pf", reason: "retry 1 of 25",
			want: `"retry":true,"error_message":"nothing asked","error_class":"error","failed_at":1700000000.5,"retry_count":0`},
	}
	for _, row := range rows {
		t.Run(row.promise, func(t *testing.T) {
			t.Parallel()
			raw := payload(row.fields)
			policy := retry.Policy{}
			run := retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: row.err, Now: now, Rand: always(3)}
			if row.with != nil {
				row.with(&policy, &run)
			}
			v := retry.Decide(policy, run)

			require.Equal(t, row.exit, v.Outcome.Exit())
			require.Equal(t, row.after, v.Outcome.After())
			require.Equal(t, row.spent, v.Exhausted)
			require.Equal(t, row.reason, v.Reason)
			processed, failed := v.Outcome.Counts()
			require.Equal(t, []bool{strings.Contains(row.counts, "p"), strings.Contains(row.counts, "f")}, []bool{processed, failed})
			want := ""
			if row.want != "-" {
				fields, queue, _ := strings.Cut(row.want, "|queue=")
				want = payload(fields)
				if queue != "" {
					want = strings.Replace(want, `"queue":"q"`, `"queue":"`+queue+`"`, 1)
				}
			}
			require.Equal(t, want, v.Outcome.Payload())
			require.Equal(t, raw, run.Job.Raw(), "the job itself never changes")
		})
	}
}

func TestABackoffIsGivenTheJob(t *testing.T) {
	t.Parallel()
	r := retry.EndedRun{Job: parse(t, payload(`"retry":true,"retry_count":3`)), Queue: "q", Err: errBoom, Now: now}
	r.Backoff = func(count int, err error, j *job.Job) time.Duration {
		require.Equal(t, 4, count)
		require.Equal(t, errBoom, err)
		require.Equal(t, r.Job, j)
		return time.Minute
	}
	require.Equal(t, time.Minute, retry.Decide(retry.Policy{}, r).Outcome.After())
}

func TestABackoffsPanicIsReported(t *testing.T) {
	t.Parallel()
	run := retry.EndedRun{Job: parse(t, payload(`"retry":true`)), Queue: "q", Err: errBoom, Now: now}
	require.Nil(t, retry.Decide(retry.Policy{}, run).Panic)
	panickingBackoff(nil, &run)
	require.Equal(t, "backoff", retry.Decide(retry.Policy{}, run).Panic.Value)
	run.Backoff = func(int, error, *job.Job) time.Duration { runtime.Goexit(); return 0 }
	verdict := retry.Decide(retry.Policy{}, run)
	require.ErrorContains(t, verdict.Panic, "runtime.Goexit")
	require.Equal(t, job.ExitRetry, verdict.Outcome.Exit(), "by the formula's delay")
}

// Ruby's json spells floats in more than one way, and Ruby looks for an entry by its own.
func TestAFailedRunKeepsTheFloatsOfTheProducer(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`[1.0e-05,1.0e+15,{"a":[2.5e-07]}]`, `[0.00001,1e+15,{"a":[0.00000025]}]`} {
		raw := `{"retry":true,"class":"A","jid":"1","args":` + args + `,"created_at":1699996400500}`
		v := retry.Decide(retry.Policy{Unit: job.Millis}, retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: errBoom, Now: now})
		require.Contains(t, v.Outcome.Payload(), `"args":`+args+`,`)
	}
}

func gated(_ *retry.Policy, r *retry.EndedRun)         { r.Gated = true }
func cancelledByUs(_ *retry.Policy, r *retry.EndedRun) { r.Ours = true }
func millis(p *retry.Policy, _ *retry.EndedRun)        { p.Unit = job.Millis }

func maxRetries(n int) func(*retry.Policy, *retry.EndedRun) {
	return func(p *retry.Policy, _ *retry.EndedRun) { p.MaxRetries = n }
}

func taken(queue string) func(*retry.Policy, *retry.EndedRun) {
	return func(_ *retry.Policy, r *retry.EndedRun) { r.Queue = queue }
}

func backoff(d time.Duration) func(*retry.Policy, *retry.EndedRun) {
	return func(_ *retry.Policy, r *retry.EndedRun) {
		r.Backoff = func(int, error, *job.Job) time.Duration { return d }
	}
}

func panickingBackoff(_ *retry.Policy, r *retry.EndedRun) {
	r.Backoff = func(int, error, *job.Job) time.Duration { panic("backoff") }
}

func TestCrashPolicyQuarantinesOneCrashShortOfTheLimit(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]struct{ quarantined, killed int }{0: {2, 3}, 2: {1, 2}, 3: {2, 3}, 5: {4, 5}} {
		policy := retry.CrashPolicy{Most: most}
		for interruptions := range 8 {
			require.Equal(t, interruptions >= want.quarantined, policy.Quarantines(interruptions), "limit %d, %d crashes", most, interruptions)
			require.Equal(t, interruptions >= want.killed, policy.Kills(interruptions), "limit %d, %d crashes", most, interruptions)
		}
	}
}
