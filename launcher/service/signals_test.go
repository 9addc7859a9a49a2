//go:build unix

package service_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/launcher/service"
)

func TestSignalsMeanTheSameAsSidekiqs(t *testing.T) {
	calls := make(chan string, 1)
	end := service.Signals{
		Worker: dummy{calls: calls}, Stop: func() { calls <- "end the context" }, Reopen: func() { calls <- "reopen" },
	}.Obey()
	defer end()
	for _, c := range []struct {
		signal syscall.Signal
		means  string
	}{
		{syscall.SIGTSTP, "quiet"}, {syscall.SIGUSR1, "quiet"}, {syscall.SIGTTIN, "dump"}, {syscall.SIGUSR2, "reopen"},
		{syscall.SIGINT, "end the context"}, {syscall.SIGTERM, "stop"},
	} {
		require.NoError(t, syscall.Kill(os.Getpid(), c.signal))
		require.Equal(t, c.means, await(t, c.signal.String(), calls))
	}
	require.Empty(t, calls)
}
