package job_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

// Any text is kept in a valid job that returns it byte for byte, and that is not wrapped again.
func TestAnUnreadableTextIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", "null", "42", `[1,"two"]`, "{", "\x00\xff\x80", "é \u2028\n\t\"\\", `{"class":"C"}`, "<script>"} {
		entry := job.KeepUnreadable(raw, "mail", errors.New("no job"), time.Unix(5, 0), job.Seconds)
		parsed, err := job.Parse(entry)
		require.NoError(t, err, "%q", raw)
		kept, ok := parsed.Kept()
		require.True(t, ok)
		require.Equal(t, raw, kept)
		require.Equal(t, "mail", parsed.Queue())
		require.NotContains(t, entry, "<", "Sidekiq 6 would not escape it")
		require.Equal(t, entry, job.KeepUnreadable(entry, "other", errors.New("again"), time.Unix(6, 0), job.Seconds))
		_, err = job.ParseToRun(entry)
		require.Error(t, err)
	}
}
