package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/link"
)

// maxWait is how long a job waits for more jobs of a slow iterator before its slice is sent. With less, the
// additional round trips would cost more than they gain; with much more, enqueued_at would be wrong, and
// progress could not be seen.
const maxWait = 100 * time.Millisecond

// PushMany pushes jobs in slices and returns a receipt for each, in their order. It stops at the first slice
// that fails: the error is a *BulkError, the last receipts are those of that slice, and no more jobs are
// read from the sequence. The jobs of a slice have one outcome; PushSlices defines slices.
func (c *Client) PushMany(ctx context.Context, jobs iter.Seq[RawJob]) ([]Receipt, error) {
	var all [][]Receipt // of each slice, so that they are copied once
	for receipts, err := range c.PushSlices(ctx, jobs) {
		all = append(all, receipts)
		if err != nil {
			return slices.Concat(all...), err
		}
	}
	return slices.Concat(all...), nil
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
		b := bulk{client: c, yield: yield, writer: writer{bulk: true}}
		for j := range jobs {
			if !b.push(ctx, &j) {
				return
			}
		}
		b.flush(ctx)
	}
}

// maxErrors bounds the errors that a PushSeq keeps of one slice: more invalid jobs than these usually have one
// cause.
const maxErrors = 10

// PushSeq pushes jobs slice by slice (see PushSlices), as many as the sequence has, and keeps no receipts.
// After each slice it calls progress, unless that is nil, with the slice's receipts and error, in the goroutine
// of the caller.
//
// It continues after an error where that cannot store a job twice and can help:
//   - An invalid job is left out alone: its receipt has StatusNotPushed, and its slice is stored without it.
//   - A slice that is certainly not in Redis, because Redis is away, is sent again for Config.RepeatFor.
//
// Any other error ends it: a lost reply, after which only a slice with a PushOnce job is sent again; a slice
// that too few replicas have; a full Redis; a push that Redis denies; middleware that fails; the end of ctx.
//
// n is how many jobs, the first of the sequence, have a known outcome: stored, refused, or left out as invalid.
// After an error that ended PushSeq, the jobs that were read beyond them are those of the last slice: none of
// them is stored or, after ErrUnknown, all or none. After ErrReplicas all are stored, and n counts them. The
// error is nil if no job was invalid and nothing ended PushSeq, else a *BulkError, which counts all outcomes.
// It wraps the error that ended PushSeq and those of the first slice with an error.
func (c *Client) PushSeq(ctx context.Context, jobs iter.Seq[RawJob], progress func(receipts []Receipt, err error)) (n int, err error) {
	if jobs == nil {
		panic("belay: a bulk push: the sequence is nil")
	}
	var errs []error
	b := &bulk{client: c, lenient: true, writer: writer{bulk: true}}
	b.yield = func(receipts []Receipt, err error) bool {
		if failed, is := errors.AsType[*BulkError](err); is && (errs == nil || b.stopped) {
			errs = append(errs, failed.Err)
		}
		if progress != nil {
			progress(receipts, err)
		}
		return true
	}
	for j := range jobs {
		if !b.push(ctx, &j) {
			break
		}
	}
	if !b.stopped {
		b.flush(ctx)
	}
	if errs == nil {
		return b.settled, nil
	}
	failed := b.counts
	failed.Err = errors.Join(errs...)
	return b.settled, &failed
}

// A BulkError reports how many jobs of a bulk push have which outcome.
type BulkError struct {
	// Queued counts jobs that are certainly in Redis, Refused those that middleware refused, and Duplicates
	// those that were refused because an equal job holds their lock.
	Queued, Refused, Duplicates int
	// Unknown counts jobs that may or may not be in Redis, NotPushed those that certainly are not. All of
	// them belong to the last slice, except invalid jobs that PushSeq left out.
	Unknown, NotPushed int
	// Err is the error of the slice that failed, as Push would return it, or joins those of PushSeq.
	Err error
}

func (e *BulkError) Error() string {
	return fmt.Sprintf("bulk push incomplete: %d jobs queued, %d refused, %d duplicates, %d unknown, %d not pushed: %v",
		e.Queued, e.Refused, e.Duplicates, e.Unknown, e.NotPushed, e.Err)
}

func (e *BulkError) Unwrap() error { return e.Err }

// A bulk is one PushSlices or PushSeq under way.
type bulk struct {
	client  *Client
	yield   func([]Receipt, error) bool
	lenient bool // it is a PushSeq
	writer  writer
	job     RawJob // the one that is being prepared
	slice   slice
	invalid []error // of the slice's jobs that are left out
	drawn   int
	settled int       // how many jobs have a known outcome
	counts  BulkError // of the slices so far
	pushed  []watched
	stopped bool
}

// watched is a job of the slice whose outcome its middleware asked for.
type watched struct {
	at  int   // the index of its receipt
	err error // why the job is left out
	callbacks
}

// push adds a job and reports whether to continue.
func (b *bulk) push(ctx context.Context, next *RawJob) bool {
	b.drawn++
	b.job = *next
	j, here := &b.job, time.Now()
	if len(b.client.middleware.All()) > 0 {
		own := b.job // which the middleware may keep
		j = &own
	}
	r, err := b.client.prepare(ctx, &b.writer, j, here)
	if err != nil {
		err = fmt.Errorf("job %d of the bulk: %w", b.drawn, err)
	}
	if len(r.pushed) > 0 {
		b.pushed = append(b.pushed, watched{len(b.slice.receipts), err, r.pushed})
	}
	_, invalid := errors.AsType[*InvalidError](err)
	switch {
	case err == nil:
	case invalid && b.lenient:
		if len(b.invalid) < maxErrors {
			b.invalid = append(b.invalid, err)
		}
	default:
		b.slice.fail(StatusNotPushed, nil)
		b.slice.add(&r, here)
		return b.end(err)
	}
	b.slice.add(&r, here)
	if b.slice.full(b.client.cfg.PayloadLimit, b.client.Page) || here.Sub(b.slice.begun) > b.client.linger {
		return b.flush(ctx)
	}
	return true
}

// flush sends the slice and reports whether to continue.
func (b *bulk) flush(ctx context.Context) bool {
	if len(b.slice.receipts) == 0 {
		return true
	}
	return b.end(b.send(ctx))
}

// send sends the slice. For a PushSeq it sends it again while Redis is away and certainly does not have it.
func (b *bulk) send(ctx context.Context) error {
	begun := time.Now()
	backoff := link.Backoff{First: minPause, Max: maxPause}
	for {
		err := b.client.send(ctx, &b.slice)
		if !b.lenient || !away(err) {
			return err
		}
		if !b.client.mayRepeat(ctx, begun, backoff.Next()) {
			return err
		}
		b.slice.restore()
	}
}

// away reports whether err means that Redis is away, and certainly has none of the jobs of the call.
func away(err error) bool {
	lasting := []error{ErrUnknown, ErrReplicas, ErrStale, ErrNotRepeatable, ErrFull, ErrOldWorker}
	return driver.Outage(err) && !slices.ContainsFunc(lasting, func(other error) bool { return errors.Is(err, other) })
}

// end counts the slice, yields it, and begins the next. It reports whether to continue: err, which is that of
// the whole slice, ends the bulk.
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
	b.stopped = err != nil
	if !b.stopped || errors.Is(err, ErrReplicas) {
		b.settled += len(receipts)
	}
	if len(b.invalid) > 0 {
		err = errors.Join(append(b.invalid, err)...)
		b.invalid = nil
	}
	if err != nil {
		failed := b.counts
		failed.Err = err
		err = &failed
	}
	return b.yield(receipts, err) && !b.stopped
}

// report calls the callbacks of a slice.
func (b *bulk) report(receipts []Receipt, err error) {
	for _, push := range b.pushed {
		receipt, why := receipts[push.at], cmp.Or(push.err, err)
		push.call(receipt, why)
	}
	clear(b.pushed)
	b.pushed = b.pushed[:0]
}
