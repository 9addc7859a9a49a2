package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
)

const (
	// sayEvery is how often somebody who waits for an answer of Redis is told so; what takes less is not worth a line.
	sayEvery = 2 * time.Second
	// restFor is between two attempts at a Redis that refuses at once.
	restFor = 200 * time.Millisecond
)

// A persistence repeats pushes for an operator, who would have to find out otherwise what became of them.
type persistence struct {
	pusher *client.Client
	most   time.Duration
	errs   io.Writer
}

// persist repeats what the receipts of a failed push are of, until it is stored or time is up. known says that this Redis has
// answered before: one that has not is perhaps no Redis, and nobody should wait for it.
func (p *persistence) persist(ctx context.Context, receipts []client.Receipt, err error, known bool) ([]client.Receipt, error) {
	if err == nil {
		return receipts, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	var told time.Time
	for worthRepeating(err, known) && pause(ctx, restFor) {
		if time.Since(told) > sayEvery {
			told = time.Now()
			_, _ = fmt.Fprintf(p.errs, "pushing again, which doubles nothing: %s\n", oneLine(err.Error()))
		}
		receipts, err = p.pusher.RepeatMany(ctx, receipts)
	}
	return receipts, err
}

// worthRepeating says whether a failed push may yet turn out well, and cannot be doubled by that.
func worthRepeating(err error, known bool) bool {
	switch {
	case err == nil || errors.Is(err, client.ErrNotRepeatable):
		return false
	case errors.Is(err, client.ErrUnknown):
		return true
	}
	return known && !errors.Is(err, client.ErrFull) && driver.Outage(err)
}

// pause says whether it lasted to its end.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
