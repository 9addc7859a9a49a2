package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestPatternsStandForTheQueuesThatTheyMatch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tenant-*", "*-low", "a*b", "**a"} {
		require.True(t, job.IsPattern(name), name)
	}
	for _, name := range []string{"*", "**", "tenant", "[q]", "q?", ""} {
		require.False(t, job.IsPattern(name), "%q is the name of a queue", name)
	}
	for _, c := range []struct {
		pattern     string
		match, fail []string
	}{
		{"tenant-*", []string{"tenant-", "tenant-1", "tenant-*", "tenant-a-b"}, []string{"tenant", "Tenant-1", "a-tenant-1", ""}},
		{"*-low", []string{"-low", "mail-low", "-low-low"}, []string{"low", "mail-lower"}},
		{"a*b", []string{"ab", "a b", "abab"}, []string{"a", "b", "aba", "bab"}},
		{"a*a", []string{"aa", "aba"}, []string{"a"}},
		{"a*b*c", []string{"abc", "axbyc", "abbcc"}, []string{"acb", "ac", "abc-"}},
		{"a**b", []string{"ab", "axb"}, []string{"a"}},
		{"q[1]?*", []string{"q[1]?", "q[1]?x"}, []string{"q1x"}},
	} {
		for _, queue := range c.match {
			require.True(t, job.MatchPattern(c.pattern, queue), "%q must match %q", c.pattern, queue)
		}
		for _, queue := range c.fail {
			require.False(t, job.MatchPattern(c.pattern, queue), "%q must not match %q", c.pattern, queue)
		}
	}
}
