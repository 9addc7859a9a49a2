package drivertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartSentinel(t *testing.T) {
	t.Parallel()
	w := StartSentinel(t)
	first := w.Primary()
	require.Same(t, w.Servers[0], first)
	second := w.FailOver(t)
	require.NotSame(t, first, second)
	second.Kill()
	require.NotSame(t, second, w.AwaitPrimary(t, second), "a dead primary is replaced")
}

func TestStartCluster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 6)
	require.Equal(t, 12182, c.Slot(t, "foo"))
	owner := c.Primary("foo")
	require.Same(t, c.Servers[2], owner)
	owner.Stop()
	require.NotSame(t, owner, c.AwaitPrimary(t, "foo", owner))
	owner.Cont()
	Eventually(t, func() bool { return owner.do("TYPE", "foo") == nil }, startTimeout, 20*time.Millisecond, "the old primary follows")
}
