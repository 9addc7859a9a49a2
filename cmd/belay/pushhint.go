package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/check"
	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
)

// hintTimeout bounds the search for consumers after a push: the jobs are stored, and a hint is not worth a long
// wait. Tests wait longer.
var hintTimeout = time.Second

const (
	// maxHinted bounds the queues that are checked for consumers after a push, and maxListed the queues
	// that the hint names.
	maxHinted, maxListed = 100, 5
)

// hints collects the queues of a push, to report at its end which of them have no consumer: a misspelled
// queue is accepted like any other, and nothing else reports it.
type hints map[string]bool

func (h hints) note(receipt client.Receipt) {
	stored := receipt.Status == client.StatusQueued || receipt.Status == client.StatusScheduled
	if stored && len(h) < maxHinted {
		h[receipt.Queue] = true
	}
}

// print writes the hint if a queue has no consumer. It checks all queues with one call, and writes nothing if
// the call fails.
func (h hints) print(cmd *cobra.Command, pusher *client.Client) {
	if len(h) == 0 || len(pusher.Spaces()) > 1 { // which of the shards has it, no one knows beforehand
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	if _, err := check.Permitted(ctx, pusher.Driver(), check.RoleDashboard, check.Config{Prefix: pusher.Spaces()[0].Prefix}); err != nil {
		return // a producer need not see processes, and denied calls would fill the ACL LOG
	}
	without, err := inspect.New(pusher).WithoutConsumer(ctx, slices.Sorted(maps.Keys(h)))
	if err != nil || len(without) == 0 {
		return
	}
	cmd.PrintErrf("no consumer for queue %s: its jobs wait until a worker takes from it\n", plain(listed(without, maxListed)))
}
