package client

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// mostWait is how long a job waits for more jobs of a slow iterator before its slice is sent. Below
// it the round trips would outweigh the gain; far above it enqueued_at would lie, and progress could not be
// seen.
const mostWait = 100 * time.Millisecond

// PushMany pushes jobs, in slices, and answers a receipt for each in the order they came. It stops at the
// first slice that fails: the error is then a *BulkError, the receipts end with those of that slice, and no
// more jobs are drawn. A slice's jobs share one fate; PushSlices says what a slice is.
func (c *Client) PushMany(ctx context.Context, jobs iter.Seq[RawJob]) ([]Receipt, error) {
	var all []Receipt
	for receipts, err := range c.PushSlices(ctx, jobs) {
		all = append(all, receipts...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// PushSlices pushes jobs slice by slice while it is ranged over, and yields the receipts of each slice that
// was sent: for more jobs than one keeps receipts of, and to show progress. Nothing is
// pushed unless it is ranged over, and breaking off pushes no more.
//
// A slice is at most lua.MostItems jobs and lua.MostBytes of payload, fewer when the iterator is slow; its
// jobs are stored all or none, also over several queues. One job that is invalid fails its slice before
// anything of it is sent. The first slice that fails is yielded with a *BulkError, and is the last.
//
// A slice with a PushOnce job is stored once as a whole: it has one idempotency key. To go on after an
// error, see RepeatMany, and push what was not drawn.
func (c *Client) PushSlices(ctx context.Context, jobs iter.Seq[RawJob]) iter.Seq2[[]Receipt, error] {
	if jobs == nil {
		panic("belay: a bulk push: the sequence is nil")
	}
	return func(yield func([]Receipt, error) bool) {
		b := bulk{client: c, yield: yield}
		for j := range jobs {
			if !b.push(ctx, j) {
				return
			}
		}
		b.flush(ctx)
	}
}

// A BulkError reports how far a bulk push came.
type BulkError struct {
	// Queued are certainly in Redis, Refused were kept out by middleware, Duplicates by other jobs that count
	// as the same.
	Queued, Refused, Duplicates int
	// Unknown may or may not be in Redis, NotPushed are certainly not; all of these are of the last slice.
	Unknown, NotPushed int
	// Err is why that slice failed, as Push would say it.
	Err error
}

func (e *BulkError) Error() string {
	return fmt.Sprintf("bulk push stopped: %d jobs queued, %d refused, %d duplicates, %d unknown, %d not pushed: %v",
		e.Queued, e.Refused, e.Duplicates, e.Unknown, e.NotPushed, e.Err)
}

func (e *BulkError) Unwrap() error { return e.Err }

// A bulk is one PushSlices under way.
type bulk struct {
	client *Client
	yield  func([]Receipt, error) bool
	slice  slice
	drawn  int
	sofar  BulkError
}

// push adds a job and reports whether to go on.
func (b *bulk) push(ctx context.Context, j RawJob) bool {
	b.drawn++
	r, err := b.client.prepare(ctx, j)
	if err != nil {
		b.slice.fail(StatusNotPushed, nil)
		b.slice.add(r)
		return b.end(fmt.Errorf("job %d of the bulk: %w", b.drawn, err))
	}
	b.slice.add(r)
	if b.slice.full(b.client.cfg.PayloadLimit) || time.Since(b.slice.begun) > b.client.linger {
		return b.flush(ctx)
	}
	return true
}

// flush sends the slice and reports whether to go on.
func (b *bulk) flush(ctx context.Context) bool {
	if len(b.slice.receipts) == 0 {
		return true
	}
	return b.end(b.client.send(ctx, &b.slice))
}

// end counts the slice, yields it, and begins the next. It reports whether to go on.
func (b *bulk) end(err error) bool {
	receipts := b.slice.receipts
	b.slice = b.slice.next()
	for _, receipt := range receipts {
		switch receipt.Status {
		case StatusQueued, StatusScheduled:
			b.sofar.Queued++
		case StatusRefused:
			b.sofar.Refused++
		case StatusDuplicate:
			b.sofar.Duplicates++
		case StatusUnknown:
			b.sofar.Unknown++
		case StatusNotPushed:
			b.sofar.NotPushed++
		}
	}
	if err == nil {
		return b.yield(receipts, nil)
	}
	failed := b.sofar
	failed.Err = err
	b.yield(receipts, &failed)
	return false
}
