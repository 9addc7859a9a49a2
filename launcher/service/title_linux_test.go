package service

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTitleHasRoomForTheState(t *testing.T) {
	t.Parallel()
	require.Equal(t, "belay 3/25", title("belay", 3, 25, false))
	require.Equal(t, "bela 3/25 quiet", title("belay", 3, 25, true))
	require.Equal(t, "a-long-n 0/1000", title("a-long-name-of-a-worker", 0, 1000, false))
	require.Equal(t, " 9999/10000 quiet", title("belay", 9999, 10000, true), "the kernel cuts it")
}
