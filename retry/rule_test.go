package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

// A valueError is an error whose method has a value receiver.
type valueError struct{ Code []int } // cannot be compared

func (valueError) Error() string { return "value" }

func on(ask retry.Ask, errs ...error) retry.ErrorRule {
	return retry.ErrorRule{Ask: ask, Errors: errs}
}

func TestErrorRules(t *testing.T) {
	t.Parallel()
	path := &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}
	kill := []retry.ErrorRule{on(retry.AskKill, errBoom)}
	for _, row := range []struct {
		promise      string
		fields       string
		err          error
		class, fleet []retry.ErrorRule
		exit         job.Exit
		counts       []bool // processed, failed
		reason       string
		ruled        bool
	}{
		{promise: "a_value_matches_through_wrappers", err: fmt.Errorf("a: %w", errors.Join(context.Canceled, errBoom)), class: kill,
			exit: job.ExitDead, counts: []bool{true, true}, reason: "killed by a rule for its error", ruled: true},
		{promise: "an_equal_text_is_not_the_value", err: errors.New("boom"), class: kill, exit: job.ExitRetry, counts: []bool{true, true}, reason: "retry 1 of 25"},
		{promise: "the_error's_own_Is_is_asked", err: path, class: []retry.ErrorRule{on(retry.AskKill, fs.ErrNotExist)},
			exit: job.ExitDead, counts: []bool{true, true}, reason: "killed by a rule for its error", ruled: true},
		{promise: "a_nil_pointer_stands_for_its_type", err: fmt.Errorf("a: %w", path), class: []retry.ErrorRule{on(retry.AskDiscard, (*fs.PathError)(nil))},
			exit: job.ExitDiscarded, counts: []bool{true, true}, reason: "discarded by a rule for its error", ruled: true},
		{promise: "a_nil_pointer_stands_for_the_type_that_it_points_to", err: valueError{}, class: []retry.ErrorRule{on(retry.AskDiscard, (*valueError)(nil))},
			exit: job.ExitDiscarded, counts: []bool{true, true}, reason: "discarded by a rule for its error", ruled: true},
		{promise: "an_error_that_cannot_be_compared_matches_no_value", err: valueError{}, class: []retry.ErrorRule{on(retry.AskDiscard, valueError{}, errBoom)},
			exit: job.ExitRetry, counts: []bool{true, true}, reason: "retry 1 of 25"},
		{promise: "an_error_whose_methods_panic_matches_nothing", err: &badError{}, class: kill, exit: job.ExitRetry, counts: []bool{true, true}, reason: "retry 1 of 25"},
		{promise: "the_server's_rules_are_asked_too", err: errBoom, fleet: kill, exit: job.ExitDead, counts: []bool{true, true}, reason: "killed by a rule for its error", ruled: true},
		{promise: "the_class'_own_go_first", err: errBoom, class: []retry.ErrorRule{on(retry.AskDiscard, errBoom)}, fleet: kill,
			exit: job.ExitDiscarded, counts: []bool{true, true}, reason: "discarded by a rule for its error", ruled: true},
		{promise: "the_first_that_matches_decides", err: errBoom, class: []retry.ErrorRule{on(retry.AskKill, path), on(retry.AskSnooze, errBoom), on(retry.AskKill, errBoom)},
			exit: job.ExitSnoozed, counts: []bool{false, false}, reason: "snoozed by a rule for its error", ruled: true},
		{promise: "what_the_handler_asks_goes_first", err: retry.Discard(errBoom), class: kill, exit: job.ExitDiscarded, counts: []bool{true, true}, reason: "discarded by its handler"},
		{promise: "even_a_delay_it_asks", err: retry.In(time.Hour, errBoom), class: kill, exit: job.ExitRetry, counts: []bool{true, true}, reason: "retry 1 of 25"},
		{promise: "a_panic_with_the_error_is_a_failure", err: &retry.PanicError{Value: errBoom}, class: kill, exit: job.ExitRetry, counts: []bool{true, true}, reason: "retry 1 of 25"},
		{promise: "a_rule_can_be_for_panics", err: &retry.PanicError{Value: errBoom}, class: []retry.ErrorRule{on(retry.AskKill, (*retry.PanicError)(nil))},
			exit: job.ExitDead, counts: []bool{true, true}, reason: "killed by a rule for its error", ruled: true},
		{promise: "a_killed_job_that_is_never_retried_is_kept", fields: `"retry":false`, err: errBoom, class: kill,
			exit: job.ExitDead, counts: []bool{true, true}, reason: "killed by a rule for its error", ruled: true},
		{promise: "a_job_that_is_never_retried_may_be_snoozed", fields: `"retry":false`, err: errBoom, class: []retry.ErrorRule{on(retry.AskSnooze, errBoom)},
			exit: job.ExitSnoozed, counts: []bool{false, false}, reason: "snoozed by a rule for its error", ruled: true},
	} {
		t.Run(row.promise, func(t *testing.T) {
			t.Parallel()
			run := retry.EndedRun{Job: parse(t, payload(row.fields)), Queue: "q", Err: row.err, Now: now, Rules: row.class}
			v := retry.Decide(retry.Policy{Rules: row.fleet}, run)
			require.Equal(t, row.exit, v.Outcome.Exit())
			processed, failed := v.Outcome.Counts()
			counts := []bool{processed, failed}
			require.Equal(t, row.counts, counts)
			require.Equal(t, row.reason, v.Reason)
			require.Equal(t, row.ruled, v.Ruled)
			require.Equal(t, row.exit == job.ExitDead, v.Exhausted)
		})
	}
}

// A job that is snoozed for its error keeps its bytes, so neither its retries nor its earlier error change.
func TestAnErrorThatSnoozesWaitsAsLongAsARetry(t *testing.T) {
	t.Parallel()
	raw := payload(`"retry":5,"error_message":"earlier","error_class":"E","failed_at":` + anHourAgo + `,"retry_count":1`)
	run := retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: errBoom, Now: now, Rules: []retry.ErrorRule{on(retry.AskSnooze, errBoom)}}
	outcome := retry.Decide(retry.Policy{}, run).Outcome
	require.Equal(t, retry.Sidekiq8.Delay(2, nil), outcome.After())
	require.Equal(t, raw, outcome.Payload())

	backoff(time.Minute)(nil, &run)
	require.Equal(t, time.Minute, retry.Decide(retry.Policy{}, run).Outcome.After())
	panickingBackoff(nil, &run)
	v := retry.Decide(retry.Policy{}, run)
	require.Equal(t, retry.Sidekiq8.Delay(2, nil), v.Outcome.After())
	require.Equal(t, "backoff", v.Panic.Value)
}

func TestARuleThatCanMatchNothingIsRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, on(retry.AskKill, errBoom).Check())
	require.EqualError(t, on(retry.AskKill).Check(), "it names no error")
	require.ErrorContains(t, on(retry.AskSnooze, errBoom, nil).Check(), "one of its errors is nil")
	require.ErrorContains(t, on(retry.AskRequeue, errBoom).Check(), "it must discard, kill or snooze")
}
