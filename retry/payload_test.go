package retry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

func TestKeptErrors(t *testing.T) {
	t.Parallel()
	fails := func(raw string, keep int, err error) *job.Job {
		run := retry.EndedRun{Job: parse(t, raw), Queue: "q", Err: err, Now: now.Add(time.Microsecond), KeepErrors: keep}
		return parse(t, retry.Decide(retry.Policy{}, run).Outcome.Payload())
	}
	at := now.UTC() // cut to milliseconds
	t.Run("are_those_of_the_last_runs_that_failed", func(t *testing.T) {
		t.Parallel()
		j := parse(t, payload(`"retry":true`))
		for _, text := range []string{"a", "b", "c"} {
			j = fails(j.Raw(), 2, errors.New(text))
		}
		require.Equal(t, []job.PastError{
			{Attempt: 2, At: at, Class: "error", Message: "b"}, {Attempt: 3, At: at, Class: "error", Message: "c"},
		}, j.PastErrors())
		j = fails(j.Raw(), 2, retry.Kill(errors.New("d")))
		require.Equal(t, "d", j.PastErrors()[1].Message, "a job that dies has its last error too")
	})
	t.Run("are_none_for_a_class_that_asks_for_none", func(t *testing.T) {
		t.Parallel()
		require.NotContains(t, fails(payload(""), 0, errBoom).Raw(), "belay_errors")
		const earlier = `"belay_errors": [ ]`
		require.Contains(t, fails(payload(earlier), 0, errBoom).Raw(), earlier, "and what is there stays byte for byte")
	})
	t.Run("have_a_bounded_message", func(t *testing.T) {
		t.Parallel()
		message := fails(payload(""), 1, errors.New(strings.Repeat("é", 9000))).PastErrors()[0].Message
		require.Equal(t, strings.Repeat("é", 300), message)
	})
	t.Run("give_way_when_the_payload_has_no_room", func(t *testing.T) {
		t.Parallel()
		j := parse(t, payload(""))
		for range 30 {
			j = fails(j.Raw(), 30, errors.New(strings.Repeat("x", 300)))
		}
		limit := len(j.Raw()) - job.PayloadSlack - 5000
		for limit < 1 { // the slack alone has room for all of them
			j = parse(t, j.Patch(job.SetString("filler", strings.Repeat("x", job.PayloadSlack))))
			limit = len(j.Raw()) - job.PayloadSlack - 5000
		}
		run := retry.EndedRun{Job: j, Queue: "q", Err: errBoom, Now: now, KeepErrors: 30}
		v := retry.Decide(retry.Policy{PayloadLimit: limit, MaxRetries: 1000}, run)
		require.Equal(t, job.ExitRetry, v.Outcome.Exit())
		after := parse(t, v.Outcome.Payload())
		require.LessOrEqual(t, len(after.Raw()), limit+job.PayloadSlack)
		require.NotEmpty(t, after.PastErrors())
		require.Less(t, len(after.PastErrors()), 30)
		message, _ := after.Text("error_message")
		require.Equal(t, "boom", message)
	})
}

// Operators do not know the --max-retries of the workers.
func TestReadersKnowHowOftenAJobMayFail(t *testing.T) {
	t.Parallel()
	fails := func(j *job.Job, maxRetries int) *job.Job {
		run := retry.EndedRun{Job: j, Queue: "q", Err: errBoom, Now: now}
		return parse(t, retry.Decide(retry.Policy{MaxRetries: maxRetries}, run).Outcome.Payload())
	}
	j := parse(t, payload(`"retry":true`))
	require.Equal(t, 26, retry.MaxAttempts(j), "no worker has run it yet")
	j = fails(j, 5)
	require.Equal(t, 6, retry.MaxAttempts(j))
	require.Equal(t, 9, retry.MaxAttempts(fails(j, 8)), "the worker that ran it last has other settings")
	require.NotContains(t, fails(j, 0).Raw(), job.FieldWorkerRetries, "Sidekiq's number is known")
	require.Equal(t, 1, retry.MaxAttempts(fails(j, -1)), "it is dead")
	own := fails(parse(t, payload(`"retry":3`)), 5)
	require.Equal(t, 4, retry.MaxAttempts(own))
	require.NotContains(t, own.Raw(), job.FieldWorkerRetries)
	require.Zero(t, retry.MaxAttempts(fails(parse(t, payload(`"retry_for":60`)), 5)))
	for text, want := range map[string]int{`"x"`: 26, `-7`: 1, `1e9`: 26, `null`: 26, `4`: 5} {
		require.Equal(t, want, retry.MaxAttempts(parse(t, payload(`"belay_worker_retries":`+text))), text)
	}
}
