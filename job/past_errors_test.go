package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestPastErrors(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1700000000500).UTC()
	past := func(attempts ...int) (errs []job.PastError) {
		for _, attempt := range attempts {
			errs = append(errs, job.PastError{Attempt: attempt, At: at, Class: "E", Message: "<é>\n"})
		}
		return errs
	}
	kept := func(errs []job.PastError, most int) []job.PastError {
		return parse(t, parse(t, payload("")).Patch(job.SetPastErrors(errs, most))).PastErrors()
	}
	t.Run("are_read_as_they_were_written", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, past(1, 2), kept(past(1, 2), 5))
	})
	t.Run("are_the_latest_ones", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, past(2, 3), kept(past(1, 2, 3), 2))
	})
	t.Run("are_never_larger_than_their_limit", func(t *testing.T) {
		t.Parallel()
		errs := past(1, 2, 3)
		for n := range errs {
			errs[n].Message = strings.Repeat("x", job.MaxErrorBytes/3)
		}
		require.Equal(t, errs[1:], kept(errs, 5))
		errs[2].Message = strings.Repeat("x", job.MaxErrorBytes)
		require.Empty(t, kept(errs, 5))
	})
	t.Run("that_cannot_be_read_are_none", func(t *testing.T) {
		t.Parallel()
		for _, value := range []string{`null`, `7`, `"x"`, `[7]`, `[{"attempt":"x"}]`, `[{"at":"soon"}]`} {
			require.Nil(t, parse(t, payload(`"belay_errors":`+value)).PastErrors(), value)
		}
		require.Nil(t, parse(t, payload("")).PastErrors())
	})
	t.Run("that_are_none_leave_no_field", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, payload(""), parse(t, payload(`"belay_errors":[]`)).Patch(job.SetPastErrors(nil, 5)))
	})
}
