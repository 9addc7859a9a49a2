package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/belayq/belay"
	push "github.com/belayq/belay/client"
	"github.com/belayq/belay/integration/chaosplan"
	"github.com/belayq/belay/integration/history"
)

// A row is what a member of a batch is called with: its number in the batch decides how it ends. One with More
// pushes another member.
type row struct {
	Number int
	More   bool
}

var (
	// backoff is that of members and callbacks: a run is minutes long.
	backoff  = belay.Backoff(func(int, error, *belay.Job) time.Duration { return 50*time.Millisecond + rand.N(300*time.Millisecond) })
	member   = belay.Define[row]("Member", belay.Queue(chaosplan.Queues[1]), backoff)
	callback = belay.Define[string]("Callback", belay.Queue(chaosplan.Queues[0]), backoff)
)

// calm is the file in the folder of the run from which on no member dies any more.
const calm = "calm"

var errOfRow = errors.New("a row that fails")

// handleBatches lets a worker run members and callbacks.
func handleBatches(server *belay.Server, client *belay.Client, h *hand) {
	member.Handle(server, func(ctx context.Context, args row) error { return h.runMember(ctx, client, args) })
	callback.Handle(server, func(ctx context.Context, what string) error {
		b, ok := belay.BatchOf(ctx)
		if !ok {
			return errors.New("a callback without a batch")
		}
		info, _ := belay.Info(ctx)
		h.book.Append(history.Event{Kind: history.Called, Token: b.ID(), JID: info.JID, Text: what})
		if info.Attempt == 1 && len(b.ID())%3 == 0 { // its batch waits for it, if it is in one
			return errOfRow
		}
		return nil
	})
}

// runMember lets a fifth of all members fail first, and some die: with or without being kept. Some push one
// more.
func (h *hand) runMember(ctx context.Context, client *belay.Client, args row) error {
	time.Sleep(rand.N(10 * time.Millisecond))
	info, _ := belay.Info(ctx)
	_, err := os.Stat(filepath.Join(h.dir, calm))
	switch n := args.Number; {
	case n%5 == 1 && info.Attempt == 1:
		return errOfRow
	case n%50 == 7 && err != nil:
		return belay.Kill(errOfRow)
	case n%100 == 58 && err != nil:
		return belay.Discard(errOfRow)
	case args.More:
		b, ok := belay.BatchOf(ctx)
		if !ok {
			return errors.New("a member without a batch")
		}
		_, err := member.Enqueue(ctx, client, row{}, belay.InBatch(b))
		if errors.Is(err, belay.ErrBatchOver) { // this process has lost the job, and it has ended elsewhere
			return nil
		}
		return err
	}
	return nil
}

// pushBatches makes, fills and seals a share of the batches, each when its turn has come, and waits for TERM. A
// process that is killed meanwhile is followed by one that begins anew.
func (f *flags) pushBatches(client *belay.Client) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for n := f.share; n < f.batches; n += 2 {
		for wait := f.began + time.Duration(n)*f.pace - history.Now(); ; wait = 100 * time.Millisecond {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			// An error is of an outage, or says that the end of the process has come.
			err := f.pushBatch(ctx, client, n)
			if err == nil {
				break
			}
			if _, invalid := errors.AsType[*push.InvalidError](err); invalid {
				return err // a mistake of the run: it would be refused for ever
			}
		}
	}
	<-ctx.Done()
	return nil
}

// pushBatch makes a batch, each tenth with another one in it. Repeating it repeats the batch, and with keys
// (see chaosplan.HasKeys) also its members.
func (f *flags) pushBatch(ctx context.Context, client *belay.Client, n int) error {
	pause := f.pace * chunk / time.Duration(f.size) // half of the time that this pusher has for a batch
	shards := len(client.Spaces())
	return makeBatch(ctx, client, belay.BatchConfig{ID: chaosplan.BatchID(n, shards)}, chaosplan.HasKeys(n, shards), f.size, pause, func(b *belay.Batch) error {
		if !chaosplan.HasNested(n) {
			return nil
		}
		return makeBatch(ctx, client, belay.BatchConfig{ID: chaosplan.NestedID(n, shards), Parent: b}, chaosplan.HasKeys(n, shards), f.size/10, pause, nil)
	})
}

// chunk is how many members one call pushes: a few, so that many a kill of a pusher comes between two calls.
const chunk = 20

// rows yields some members of a batch.
func rows(b *belay.Batch, from, to int, keys bool) iter.Seq[belay.RawJob] {
	return func(yield func(belay.RawJob) bool) {
		for n := from; n < to; n++ {
			j := member.Job(row{n, n%25 == 3 && !keys})
			j.Batch = b
			if keys {
				j.JID = fmt.Sprintf("%s-row-%d", b.ID(), n)
				j.Key, j.KeyFor = j.JID, hour
				j.ShardKey = b.ID() // which places the key where the batch is
			}
			if !yield(j) {
				return
			}
		}
	}
}

// makeBatch makes, fills and seals a batch, with a pause after each call. first is called before it is filled.
func makeBatch(ctx context.Context, client *belay.Client, cfg belay.BatchConfig, keys bool, size int, pause time.Duration, first func(b *belay.Batch) error) error {
	cfg.OnComplete, cfg.OnSuccess, cfg.OnDeath = callback.Job(chaosplan.Complete), callback.Job(chaosplan.Success), callback.Job(chaosplan.Death)
	_, err := belay.NewBatch(ctx, client, cfg, func(b *belay.Batch) error {
		if first != nil {
			if err := first(b); err != nil {
				return err
			}
		}
		for from := 0; from < size; from += chunk {
			if _, err := client.PushMany(ctx, rows(b, from, min(from+chunk, size), keys)); err != nil {
				return err
			}
			time.Sleep(pause)
		}
		return nil
	})
	if errors.Is(err, belay.ErrBatchOver) { // an earlier process has sealed it
		return nil
	}
	return err
}
