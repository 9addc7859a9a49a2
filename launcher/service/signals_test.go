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
	told := make(chan string, 1)
	end := service.Signals{
		Worker: dummy{told: told}, Stop: func() { told <- "end the context" }, Reopen: func() { told <- "reopen" },
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
		require.Equal(t, c.means, await(t, c.signal.String(), told))
	}
	require.Empty(t, told)
}
