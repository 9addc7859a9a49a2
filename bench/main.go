package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/belayq/belay/launcher/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	// A closed pipe is an error of the write, and must not end the bench with servers and folders left
	// behind. The signal is not ignored either, because subjects would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", withoutCredentials(err.Error()))
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// endings are the signals after which the bench clears up and ends. SIGHUP, of a closed terminal, is one
// unless nohup ignores it.
func endings() []os.Signal {
	return append(service.NotIgnored(syscall.SIGHUP), os.Interrupt, syscall.SIGTERM)
}
