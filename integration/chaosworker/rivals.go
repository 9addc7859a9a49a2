package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/belayq/belay"
	"github.com/belayq/belay/integration/history"
	"github.com/belayq/belay/job"
)

// hour is longer than any run of the storm: no lock may run out.
const hour = time.Hour

// rivals are classes of unique jobs, by what they say of their lock. Jobs of one key have equal arguments.
var rivals = map[string]*belay.Definition[Args]{
	modes[0]: belay.Define[Args]("Executing", belay.Unique(belay.UntilExecuting, belay.UniqueOpts{TTL: hour})),
	modes[1]: belay.Define[Args]("Executed", belay.Unique(belay.UntilExecuted, belay.UniqueOpts{TTL: hour})),
	modes[2]: belay.Define[Args]("OnceMore", belay.Unique(belay.UntilExecuted, belay.UniqueOpts{TTL: hour, RescheduleOnce: true})),
}

// modes are the kinds of rivals, and keys is of how many keys there are.
var modes = []string{"until_executing", "until_executed", "until_executed, once more"}

const keys = 50

// pushRivals has several push rivals until TERM.
func (f *flags) pushRivals(book *history.Writer, client *belay.Client) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var all sync.WaitGroup
	for n := range f.rivals {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(f.seed, uint64(n)))
			for ctx.Err() == nil {
				pushRival(ctx, dice, book, client)
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(dice.ExpFloat64() * float64(150*time.Millisecond))):
				}
			}
		})
	}
	all.Wait()
	return nil
}

// pushRival pushes one job and records the answer. Every other one is repeated while its answer does not come.
func pushRival(ctx context.Context, dice *rand.Rand, book *history.Writer, client *belay.Client) {
	n := dice.IntN(keys)
	mode := modes[n%len(modes)]
	args := Args{Token: fmt.Sprintf("%s/%02d", mode, n), Spec: history.Spec{Kind: mode, Millis: 1 + n*n/15, Odds: 3 + n%5}}
	event := history.Event{Kind: history.Invoke, Token: args.Token, JID: job.NewJID(), Spec: &args.Spec}
	options := []belay.JobOption{belay.JID(event.JID)}
	if dice.IntN(2) == 0 {
		options = append(options, belay.PushOnce())
	}
	book.Append(event)
	// Not with the end of the process: what has been sent is waited for.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	receipt, err := rivals[mode].Enqueue(within, client, args, options...)
	event.Spec = nil
	switch {
	case receipt.Status == belay.StatusQueued:
		event.Kind = history.Accepted
	case receipt.Status == belay.StatusDuplicate:
		event.Kind, event.Text = history.Duplicate, receipt.Holder
	case errors.Is(err, belay.ErrUnknown):
		event.Kind, event.Text = history.Unknown, err.Error()
	default:
		event.Kind, event.Text = history.Refused, fmt.Sprint(err)
	}
	book.Append(event)
}

// rivalsOutcome is how a run of a rival ends: it fails once in Odds runs, and sometimes ends otherwise.
func rivalsOutcome(args Args) string {
	switch dice := rand.IntN(args.Spec.Odds * 4); {
	case dice < 4:
		return history.Later
	case dice == 4 && strings.HasSuffix(args.Token, "7"):
		return history.Killed
	case dice == 5:
		return history.Discarded
	case dice == 6:
		return history.Snoozed
	}
	return history.OK
}
