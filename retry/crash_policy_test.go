package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/retry"
)

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
