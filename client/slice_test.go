package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/lua"
)

// A page costs a lock that all pushes of a client share.
func TestASliceAsksForItsPageOnce(t *testing.T) {
	var s slice
	asked := 0
	page := func() int {
		asked++
		return 3
	}
	for n := 1; n <= 3; n++ {
		s.add(&ready{Receipt: Receipt{Status: StatusQueued}, stored: lua.NewJob{Queue: "q", Job: "x"}}, time.Time{})
		require.Equal(t, n == 3, s.full(1, page))
	}
	require.Equal(t, 1, asked)
	s = s.next()
	require.False(t, s.full(1, page))
	require.Equal(t, 2, asked, "the next slice may have another page")
}
