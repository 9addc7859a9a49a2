package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/job"
)

func TestEachExitLeavesATrackedJobAState(t *testing.T) {
	t.Parallel()
	require.Len(t, trackStates, len(job.Exits))
	for _, exit := range job.Exits {
		require.NotEmpty(t, trackStates[exit], exit)
		require.Equal(t, exit.Ends(), trackStates[exit].Ended(), exit)
	}
}
