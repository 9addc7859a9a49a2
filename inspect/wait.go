package inspect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/belayq/belay/client"
)

// ErrNoJob means that Redis has no job with this jid, and no state of one.
var ErrNoJob = errors.New("no such job: it was never pushed, or it has ended and its state has expired")

const (
	// lookAfter is how long Wait waits before it looks for the job. Most jobs have begun by then, and a worker
	// stores the state of a tracked job once a second.
	lookAfter = time.Second
	// mostLooked is how many jobs it reads at most, and so half of how many may be in Redis: a search that
	// finds nothing reads them twice. Redis compares about 500,000 a second.
	mostLooked = 200_000
)

// Wait is client.Client.Wait, with the same results and errors, and one more: the error is ErrNoJob if Redis
// has no job with this jid. For that, it looks for the job once, as Find does, a second after it began to wait.
// If there are more than 100,000 jobs in a keyspace, it gives up the search and goes on waiting. For a client
// with shards it is Fleet.Wait.
//
// Some jobs are not in Redis before they are pushed: a prepared one, a next job, and the callback of a batch.
// For those, and for a jid that is pushed later, use client.Client.Wait.
func (i *Inspector) Wait(ctx context.Context, jid string) (Tracked, error) {
	f := &Fleet{shards: []Shard{{Inspector: i}}}
	if len(i.client.Spaces()) > 1 {
		f = FleetOf(i.client)
	}
	return f.Wait(ctx, jid)
}

// Wait is Inspector.Wait for a job on one of the shards. It goes on waiting while it cannot look at a shard.
func (f *Fleet) Wait(ctx context.Context, jid string) (Tracked, error) {
	ctx, end := context.WithCancelCause(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAfter):
		}
		if f.isMissing(ctx, jid, mostLooked) {
			end(ErrNoJob)
		}
	}()
	tracked, err := f.wait(ctx, jid)
	end(nil)
	<-looked
	return tracked, err
}

// wait is client.Client.Wait with each of the shards' clients, of which FleetOf has one.
func (f *Fleet) wait(ctx context.Context, jid string) (tracked Tracked, err error) {
	ctx, stop := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	var first sync.Once
	waited := make(map[*client.Client]bool)
	for _, shard := range f.shards {
		if c := shard.client; !waited[c] {
			waited[c] = true
			waiting.Go(func() {
				t, e := c.Wait(ctx, jid)
				first.Do(func() { tracked, err = t, e })
				stop()
			})
		}
	}
	waiting.Wait()
	stop()
	return tracked, err
}

// isMissing reports whether no shard has a job or a state.
func (f *Fleet) isMissing(ctx context.Context, jid string, most int) bool {
	return !slices.ContainsFunc(f.shards, func(s Shard) bool { return !s.isMissing(ctx, jid, most) })
}

// isMissing reports whether Redis has neither a job nor a state. It returns false if it cannot tell, such as
// after it has read the given number of jobs. The state is read after the search, because the job may have run
// meanwhile.
func (i *Inspector) isMissing(ctx context.Context, jid string, most int) bool {
	searching, giveUp := context.WithCancel(ctx)
	defer giveUp()
	found, err := i.Find(searching, jid, func(looked int, _ string) {
		if looked > most {
			giveUp()
		}
	})
	if err != nil || found.Place != PlaceNotFound || found.Unseen != "" {
		return false
	}
	tracked, err := i.client.Tracked(ctx, jid)
	return err == nil && tracked.State == TrackWaiting
}
