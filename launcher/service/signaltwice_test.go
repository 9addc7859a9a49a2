package service

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// GNU timeout tells the process, and then its group.
func TestARepeatedSignalCountsOnce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	first := stopSignal{by: syscall.SIGTERM, at: at}
	require.True(t, first.same(syscall.SIGTERM, at))
	require.True(t, first.same(syscall.SIGTERM, at.Add(sameSignal-1)))
	require.False(t, first.same(syscall.SIGTERM, at.Add(sameSignal)), "who means it a second time")
	require.False(t, first.same(os.Interrupt, at), "another signal is another")
	require.False(t, stopSignal{}.same(syscall.SIGTERM, at))
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGWINCH) // which no test here waits for
	t.Cleanup(func() { signal.Reset(syscall.SIGWINCH) })
	require.Equal(t, []os.Signal{syscall.SIGTERM}, NotIgnored(syscall.SIGWINCH, syscall.SIGTERM))
	require.Empty(t, NotIgnored(syscall.SIGWINCH))
}
