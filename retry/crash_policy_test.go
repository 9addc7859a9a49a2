package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/retry"
)

func TestBlameSuspectsOneCrashShortOfTheLimit(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]struct{ suspect, killer int }{0: {2, 3}, 2: {1, 2}, 3: {2, 3}, 5: {4, 5}} {
		policy := retry.CrashPolicy{Most: most}
		for interruptions := range 8 {
			require.Equal(t, interruptions >= want.suspect, policy.Quarantines(interruptions), "limit %d, %d crashes", most, interruptions)
			require.Equal(t, interruptions >= want.killer, policy.Kills(interruptions), "limit %d, %d crashes", most, interruptions)
		}
	}
}
