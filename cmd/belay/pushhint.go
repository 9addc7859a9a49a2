package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/inspect"
)

const (
	// hintTimeout bounds the look for consumers after a push: what was pushed is safe, and a hint is not worth a wait.
	hintTimeout = time.Second
	// mostHinted is how many queues one push looks for consumers of, and mostListed how many it names.
	mostHinted, mostListed = 100, 5
)

// hints gathers the queues that a push has put jobs into, to say at its end which of them have no consumer: a misspelled queue is
// accepted like any other, and nothing else says so.
type hints map[string]bool

func (h hints) note(receipt client.Receipt) {
	stored := receipt.Status == client.StatusQueued || receipt.Status == client.StatusScheduled
	if stored && len(h) < mostHinted {
		h[receipt.Queue] = true
	}
}

// tell writes the hint, if there is anything to say. Its look is one for all queues; where it fails nothing is said.
func (h hints) tell(pusher *client.Client, errs io.Writer) {
	if len(h) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	without, err := inspect.New(pusher.Driver(), pusher.Config().Prefix).WithoutConsumer(ctx, slices.Sorted(maps.Keys(h)))
	if err != nil || len(without) == 0 {
		return
	}
	names := make([]string, min(len(without), mostListed))
	for i := range names {
		names[i] = plain(without[i])
	}
	more := ""
	if left := len(without) - len(names); left > 0 {
		more = fmt.Sprintf(" and %d more", left)
	}
	_, _ = fmt.Fprintf(errs, "no consumer for queue %s%s: what was pushed waits until a worker takes from there\n", strings.Join(names, ", "), more)
}
