package client

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// maxWait is how long a job waits for more jobs of a slow iterator before its slice is sent. With less, the
// additional round trips would cost more than they gain; with much more, enqueued_at would be wrong, and
// progress could not be seen.
const maxWait = 100 * time.Millisecond

// PushMany pushes jobs in slices and returns a receipt for each, in their order. It stops at the first slice
// that fails: the error is a *BulkError, the last receipts are those of that slice, and no more jobs are
// read from the sequence. The jobs of a slice have one outcome; PushSlices defines slices.
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

// PushSlices pushes jobs slice by slice while the caller ranges over the result, and yields the receipts of
// each slice that was sent. Use it for more jobs than there is memory for receipts, or to show progress.
// Nothing is pushed without ranging over the result, and nothing more after a break.
//
// A slice has at most lua.MaxItems jobs and lua.MaxBytes of payload, or fewer if the iterator or the link
// is slow. Either all of its jobs are stored or none, even in several queues. One invalid job fails its slice
// before anything is sent. The first slice that fails is yielded with a *BulkError, and is the last one.
//
// A slice with a PushOnce job has one idempotency key and is stored once as a whole. After an error, call
// RepeatMany, and push the jobs that were not read.
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

// A BulkError reports how many jobs of a bulk push have which outcome.
type BulkError struct {
	// Queued counts jobs that are certainly in Redis, Refused those that middleware refused, and Duplicates
	// those that were refused because an equal job holds their lock.
	Queued, Refused, Duplicates int
	// Unknown counts jobs that may or may not be in Redis, NotPushed those that certainly are not. All of
	// them belong to the last slice.
	Unknown, NotPushed int
	// Err is the error of the slice that failed, as Push would return it.
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
	counts BulkError // of the slices so far
	pushed []watched
}

// watched is a job of the slice whose outcome its middleware asked for.
type watched struct {
	at int // the index of its receipt
	callbacks
}

// push adds a job and reports whether to continue.
func (b *bulk) push(ctx context.Context, j RawJob) bool {
	b.drawn++
	r, err := b.client.prepare(ctx, j)
	if len(r.pushed) > 0 {
		b.pushed = append(b.pushed, watched{len(b.slice.receipts), r.pushed})
	}
	if err != nil {
		b.slice.fail(StatusNotPushed, nil)
		b.slice.add(r)
		return b.end(fmt.Errorf("job %d of the bulk: %w", b.drawn, err))
	}
	b.slice.add(r)
	if b.slice.full(b.client.cfg.PayloadLimit, b.client.Page) || time.Since(b.slice.begun) > b.client.linger {
		return b.flush(ctx)
	}
	return true
}

// flush sends the slice and reports whether to continue.
func (b *bulk) flush(ctx context.Context) bool {
	if len(b.slice.receipts) == 0 {
		return true
	}
	return b.end(b.client.send(ctx, &b.slice))
}

// end counts the slice, yields it, and begins the next. It reports whether to continue.
func (b *bulk) end(err error) bool {
	receipts := b.slice.receipts
	b.slice = b.slice.next()
	b.report(receipts, err)
	for _, receipt := range receipts {
		switch receipt.Status {
		case StatusQueued, StatusScheduled:
			b.counts.Queued++
		case StatusRefused:
			b.counts.Refused++
		case StatusDuplicate:
			b.counts.Duplicates++
		case StatusUnknown:
			b.counts.Unknown++
		case StatusNotPushed:
			b.counts.NotPushed++
		}
	}
	if err == nil {
		return b.yield(receipts, nil)
	}
	failed := b.counts
	failed.Err = err
	b.yield(receipts, &failed)
	return false
}

// report calls the callbacks of a slice.
func (b *bulk) report(receipts []Receipt, err error) {
	for _, push := range b.pushed {
		receipt, why := receipts[push.at], err
		if receipt.Status != StatusUnknown && receipt.Status != StatusNotPushed {
			why = nil
		}
		push.call(receipt, why)
	}
	clear(b.pushed)
	b.pushed = b.pushed[:0]
}
