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
	// A closed pipe is an error of whoever writes into it, and must not end us with servers and folders left behind. It is not
	// ignored either: subjects would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", withoutCredentials(err.Error()))
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// endings are the signals after which the bench clears up and ends: that of a closed terminal too, unless nohup has said that it is
// none.
func endings() []os.Signal {
	return append(service.Heard(syscall.SIGHUP), os.Interrupt, syscall.SIGTERM)
}
