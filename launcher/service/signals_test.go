//go:build unix

package service_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/launcher/service"
)

func TestSignalsMeanTheSameAsSidekiqs(t *testing.T) {
	for _, c := range []struct {
		signals []syscall.Signal
		mean    []string
	}{
		{[]syscall.Signal{syscall.SIGTSTP}, []string{"quiet"}},
		{[]syscall.Signal{syscall.SIGUSR1}, []string{"quiet"}},
		{[]syscall.Signal{syscall.SIGTTIN}, []string{"dump"}},
		{[]syscall.Signal{syscall.SIGUSR2}, []string{"reopen"}},
		{[]syscall.Signal{syscall.SIGINT}, []string{"end the context"}},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, []string{"end the context", "quiet", "stop"}},
	} {
		calls := make(chan string, 9)
		end := service.Signals{
			Worker: notRun(t, calls), Stop: func() { calls <- "end the context" }, Reopen: func() { calls <- "reopen" },
		}.Obey()
		for _, signal := range c.signals {
			require.NoError(t, syscall.Kill(os.Getpid(), signal))
		}
		var called []string
		for range c.mean {
			called = append(called, await(t, fmt.Sprint("a call by ", c.signals), calls))
		}
		end()
		require.ElementsMatch(t, c.mean, called)
		require.Empty(t, calls)
	}
}

func TestASignalEndsAContextWithItsCause(t *testing.T) {
	ctx, stop := service.UntilSignal(func(by os.Signal) error { return fmt.Errorf("ended by %v", by) })
	defer stop()
	require.NoError(t, ctx.Err())
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	await(t, "the end of the context", ctx.Done())
	require.EqualError(t, context.Cause(ctx), "ended by terminated")
}
