package inspect

import (
	"context"
	"errors"
	"time"
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
// If there are more than 100,000 jobs in Redis, it gives up the search and goes on waiting.
//
// Some jobs are not in Redis before they are pushed: a prepared one, a next job, and the callback of a batch.
// For those, and for a jid that is pushed later, use client.Client.Wait. It does not look for the job of a
// client with shards.
func (i *Inspector) Wait(ctx context.Context, jid string) (Tracked, error) {
	if len(i.client.Spaces()) > 1 {
		return i.client.Wait(ctx, jid) //nolint:wrapcheck // it is client.Client.Wait
	}
	ctx, end := context.WithCancelCause(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAfter):
		}
		if i.isMissing(ctx, jid, mostLooked) {
			end(ErrNoJob)
		}
	}()
	tracked, err := i.client.Wait(ctx, jid)
	end(nil)
	<-looked
	return tracked, err
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
