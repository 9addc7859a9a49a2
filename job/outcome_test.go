package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		outcome           job.Outcome
		exit              job.Exit
		payload           string
		after             time.Duration
		processed, failed bool
	}{
		{"done_is_processed", job.Done(), job.ExitDone, "", 0, true, false},
		{"a_retry_is_processed_and_failed", job.Retried("p", time.Second), job.ExitRetry, "p", time.Second, true, true},
		{"a_retry_never_waits_less_than_nothing", job.Retried("p", -1), job.ExitRetry, "p", 0, true, true},
		{"a_death_is_processed_and_failed", job.Died("p"), job.ExitDead, "p", 0, true, true},
		{"an_unread_payload_is_processed_and_failed", job.Unread("p"), job.ExitDead, "p", 0, true, true},
		{"a_discard_is_processed", job.Discarded(false), job.ExitDiscarded, "", 0, true, false},
		{"a_discard_over_an_error_is_failed_too", job.Discarded(true), job.ExitDiscarded, "", 0, true, true},
		{"a_cancel_is_processed", job.Cancelled(), job.ExitCancelled, "", 0, true, false},
		{"an_expiry_is_processed", job.Expired(false), job.ExitExpired, "", 0, true, false},
		{"an_expiry_after_an_error_is_failed_too", job.Expired(true), job.ExitExpired, "", 0, true, true},
		{"a_snooze_counts_nothing", job.Snoozed("p", time.Hour), job.ExitSnoozed, "p", time.Hour, false, false},
		{"a_snooze_never_waits_less_than_nothing", job.Snoozed("p", -1), job.ExitSnoozed, "p", 0, false, false},
		{"a_requeue_counts_nothing", job.Requeued(), job.ExitRequeued, "", 0, false, false},
		{"a_wait_counts_nothing", job.Waits(time.Hour), job.ExitWaits, "", time.Hour, false, false},
		{"a_wait_is_never_less_than_nothing", job.Waits(-1), job.ExitWaits, "", 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			processed, failed := c.outcome.Counts()
			require.Equal(t, c.exit, c.outcome.Exit())
			require.Equal(t, c.payload, c.outcome.Payload())
			require.Equal(t, c.after, c.outcome.After())
			require.Equal(t, []bool{c.processed, c.failed}, []bool{processed, failed})
		})
	}
}

func TestEveryExitHasItsEffects(t *testing.T) {
	t.Parallel()
	type effects struct{ ends, carries, keepsState, unfinished, fault bool }
	want := map[job.Exit]effects{
		job.ExitDone:      {ends: true},
		job.ExitRetry:     {carries: true, keepsState: true, fault: true},
		job.ExitDead:      {ends: true, carries: true, keepsState: true, fault: true},
		job.ExitDiscarded: {ends: true, fault: true},
		job.ExitCancelled: {ends: true, unfinished: true, fault: true},
		job.ExitExpired:   {ends: true, unfinished: true, fault: true},
		job.ExitSnoozed:   {carries: true, keepsState: true},
		job.ExitRequeued:  {keepsState: true, unfinished: true},
		job.ExitWaits:     {keepsState: true},
	}
	require.Len(t, want, len(job.Exits))
	for _, exit := range job.Exits {
		require.Contains(t, want, exit)
		got := effects{exit.Ends(), exit.Carries(), exit.KeepsState(), exit.Unfinished(), exit.Fault()}
		require.Equal(t, want[exit], got, exit)
	}
	unknown := job.Exit("unknown")
	require.Equal(t, effects{keepsState: true},
		effects{unknown.Ends(), unknown.Carries(), unknown.KeepsState(), unknown.Unfinished(), unknown.Fault()},
		"nothing is deleted or released for an exit that is in no row")
}

func TestBacktrace(t *testing.T) {
	t.Parallel()
	t.Run("reads_back_what_was_written", func(t *testing.T) {
		t.Parallel()
		lines := []string{"main.go:1:in `é'", `"quoted"`, ""}
		text := job.EncodeBacktrace(lines)
		require.NotContains(t, text, "\n")
		require.True(t, strings.HasPrefix(text, "eJ"), "the zlib header 78 9c in Base64, not gzip's: %s", text)
		got, err := job.DecodeBacktrace(text)
		require.NoError(t, err)
		require.Equal(t, lines, got)
	})
	t.Run("reads_the_broken_lines_of_old_Ruby", func(t *testing.T) {
		t.Parallel()
		text := job.EncodeBacktrace([]string{"a", "b"})
		got, err := job.DecodeBacktrace(text[:10] + "\n" + text[10:] + "\n")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, got)
	})
	t.Run("refuses_what_is_none_and_what_is_too_much", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"", "!", "AAAA", `["a"]`, job.EncodeBacktrace([]string{strings.Repeat("x", 2<<20)})} {
			_, err := job.DecodeBacktrace(text)
			require.Error(t, err)
		}
	})
}
