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
// that fails: the error is a *BulkError, the last receipts are those of that slice and of the jobs that were
// read meanwhile, and no more jobs are read from the sequence. The jobs of a slice have one outcome (after
// ErrReplicas all of them are stored); PushSlices defines slices.
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
// before anything is sent.
//
// While a full slice is sent, the next jobs are read from the sequence; slices are stored one after the other.
// So the sequence must not wait for a receipt, and after a break up to a slice of jobs was read and not pushed.
// The first slice that fails is yielded with a *BulkError, and is the last one. Behind its receipts are those
// of the jobs that were read meanwhile, with StatusNotPushed.
//
// With Config.Shards, the jobs of a slice that go to one shard are stored all or none, each shard on its own,
// and Receipt.Shard names it. If a shard fails, the slice fails, and the receipts of its jobs on the other
// shards have their own outcome.
//
// A slice with a PushOnce job has one idempotency key and is stored once as a whole. After an error, call
// RepeatMany, and push the jobs that were not read.
func (c *Client) PushSlices(ctx context.Context, jobs iter.Seq[RawJob]) iter.Seq2[[]Receipt, error] {
	if jobs == nil {
		panic("belay: a bulk push: the sequence is nil")
	}
	return func(yield func([]Receipt, error) bool) {
		b := newBulk(c, yield)
		b.run(ctx, jobs)
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
// After an error that ended PushSeq, the jobs that were read beyond them are those of the slice that failed and
// those that were read meanwhile. Of the slice none is stored or, after ErrUnknown, all or none; after
// ErrReplicas all are stored, and n counts them. The others are certainly not stored. With Config.Shards this
// holds for the jobs of the slice on each shard, so that some may be stored though others are not.
//
// The error is nil if no job was invalid and nothing ended PushSeq, else a *BulkError, which counts all
// outcomes. It wraps the error that ended PushSeq and those of the first slice with an error.
func (c *Client) PushSeq(ctx context.Context, jobs iter.Seq[RawJob], progress func(receipts []Receipt, err error)) (n int, err error) {
	if jobs == nil {
		panic("belay: a bulk push: the sequence is nil")
	}
	var errs []error
	b := newBulk(c, nil)
	b.lenient = true
	b.yield = func(receipts []Receipt, err error) bool {
		if failed, is := errors.AsType[*BulkError](err); is && (errs == nil || b.stopped) {
			errs = append(errs, failed.Err)
		}
		if progress != nil {
			progress(receipts, err)
		}
		return true
	}
	b.run(ctx, jobs)
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
	// them have their receipts behind the error, except invalid jobs that PushSeq left out.
	Unknown, NotPushed int
	// Err is the error of the slice that failed, as Push would return it, or joins those of PushSeq.
	Err error
}

func (e *BulkError) Error() string {
	return fmt.Sprintf("bulk push incomplete: %d jobs queued, %d refused, %d duplicates, %d unknown, %d not pushed: %v",
		e.Queued, e.Refused, e.Duplicates, e.Unknown, e.NotPushed, e.Err)
}

func (e *BulkError) Unwrap() error { return e.Err }

// A bulk is one PushSlices or PushSeq under way. The goroutine of the caller reads the sequence, runs the
// middleware and yields. Meanwhile another one sends a full slice; one is under way at a time, so that their
// order stays.
type bulk struct {
	client  *Client
	yield   func([]Receipt, error) bool
	lenient bool // it is a PushSeq
	writer  writer
	job     RawJob // the one that is being prepared
	ready   ready  // what becomes of it
	open    *part  // gets the next jobs
	sent    *part  // is sent, if landed is set
	landed  chan struct{}
	drawn   int
	settled int       // how many jobs have a known outcome
	counts  BulkError // of the slices so far
	stopped bool
}

// A part is a slice of a bulk, and what is known of it besides.
type part struct {
	slice
	invalid  []error   // of its jobs that are left out
	watched  []watched // its jobs whose outcome their middleware asked for
	err      error     // once it was sent
	panicked any       // by the goroutine that sent it
}

// watched is a job whose outcome its middleware asked for.
type watched struct {
	at  int   // the index of its receipt
	err error // why the job is left out
	callbacks
}

func newBulk(c *Client, yield func([]Receipt, error) bool) *bulk {
	return &bulk{client: c, yield: yield, writer: writer{bulk: true}, open: new(part), sent: new(part)}
}

// run pushes the jobs until one of push, flush and yield ends it.
func (b *bulk) run(ctx context.Context, jobs iter.Seq[RawJob]) {
	defer func() {
		if b.landed != nil { // the sequence, middleware or yield panics
			<-b.landed
		}
		if len(b.open.receipts) > 0 { // read, and then the caller broke off
			b.open.fail(StatusNotPushed, nil)
			b.open.report(errBroken)
		}
	}()
	for j := range jobs {
		if !b.push(ctx, &j) {
			return
		}
	}
	b.flush(ctx)
}

var errBroken = errors.New("belay: not pushed: the program broke off its bulk push")

// push adds a job and reports whether to continue.
func (b *bulk) push(ctx context.Context, next *RawJob) bool {
	b.drawn++
	b.job = *next
	j, here := &b.job, time.Now()
	if len(b.client.middleware.All()) > 0 {
		own := b.job // which the middleware may keep
		j = &own
	}
	r := &b.ready
	err := b.client.prepare(ctx, &b.writer, j, here, r)
	if err != nil {
		err = fmt.Errorf("job %d of the bulk: %w", b.drawn, err)
	}
	if len(r.pushed) > 0 {
		b.open.watched = append(b.open.watched, watched{len(b.open.receipts), err, r.pushed})
	}
	b.open.add(r, here)
	_, invalid := errors.AsType[*InvalidError](err)
	switch {
	case invalid && b.lenient:
		if len(b.open.invalid) < maxErrors {
			b.open.invalid = append(b.open.invalid, err)
		}
	case err != nil:
		if !b.land() {
			return false
		}
		b.open.fail(StatusNotPushed, nil)
		return b.end(b.open, err)
	}
	switch {
	case here.Sub(b.open.begun) > b.client.linger:
		return b.flush(ctx) // the sequence is slow: while it waits, the caller shall see what was stored
	case b.open.full(b.client.cfg.PayloadLimit, b.client.Page):
		return b.launch(ctx)
	}
	return true
}

// launch begins to send the open part, once the one before was stored, and opens another one. It reports
// whether to continue.
func (b *bulk) launch(ctx context.Context) bool {
	if !b.land() {
		return false
	}
	b.open, b.sent, b.landed = b.sent, b.open, make(chan struct{})
	b.writer.turn = nil
	sent := b.sent
	go sent.fly(b.landed, func() error { return b.send(ctx, &sent.slice) })
	return true
}

// fly sends a part, and closes landed when its receipts and err are known.
func (p *part) fly(landed chan<- struct{}, send func() error) {
	answered := false
	defer func() {
		if p.panicked = recover(); !answered {
			p.err = p.slice.end(answer{}, outcomeOf(&driver.UncertainError{Err: errBrokenOff}), nil)
		}
		close(landed)
	}()
	p.err = send()
	answered = true
}

// land waits for the part that is being sent, if there is one, and yields it. It reports whether to continue.
func (b *bulk) land() bool {
	if b.landed == nil {
		return true
	}
	<-b.landed
	b.landed = nil
	if b.sent.panicked != nil {
		panic(b.sent.panicked) // where the caller can recover it
	}
	return b.end(b.sent, b.sent.err)
}

// flush sends the open part, and waits for it. It reports whether to continue.
func (b *bulk) flush(ctx context.Context) bool {
	if !b.land() {
		return false
	}
	if len(b.open.receipts) == 0 {
		return true
	}
	b.writer.turn = nil
	return b.end(b.open, b.send(ctx, &b.open.slice))
}

// send sends a slice, to each of its shards at once.
func (b *bulk) send(ctx context.Context, s *slice) error {
	c := b.client
	if c.place == nil {
		return b.persist(ctx, s, func() error { return c.spaces[0].send(ctx, s) })
	}
	parts := s.split()
	errs := make([]error, len(parts))
	each(len(parts), func(i int) {
		errs[i] = b.persist(ctx, &parts[i].slice, func() error { return c.sendPart(ctx, parts[i]) })
	})
	return errors.Join(errs...)
}

// persist sends a slice. For a PushSeq it sends it again while Redis is away and certainly does not have it.
func (b *bulk) persist(ctx context.Context, s *slice, send func() error) error {
	begun := time.Now()
	backoff := link.Backoff{First: minPause, Max: maxPause}
	for {
		err := send()
		if !b.lenient || !away(err) {
			return err
		}
		if !b.client.cfg.mayRepeat(ctx, begun, backoff.Next()) {
			return err
		}
		s.restore()
	}
}

// away reports whether err means that Redis is away, and certainly has none of the jobs of the call.
func away(err error) bool {
	lasting := []error{ErrUnknown, ErrReplicas, ErrStale, ErrNotRepeatable, ErrOldWorker, ErrShards}
	return driver.Away(err) && !slices.ContainsFunc(lasting, func(other error) bool { return errors.Is(err, other) })
}

// end counts a part that was sent, or failed, and yields it. It reports whether to continue: err, which is that
// of the whole slice, ends the bulk.
func (b *bulk) end(p *part, err error) bool {
	receipts, invalid := p.receipts, p.invalid
	p.report(err)
	b.stopped = err != nil
	if !b.stopped || errors.Is(err, ErrReplicas) {
		b.settled += len(receipts)
	}
	if b.stopped && p != b.open { // the jobs that were read meanwhile
		b.client.leave(&b.open.slice)
		b.open.report(err)
		receipts, invalid = append(receipts, b.open.receipts...), append(invalid, b.open.invalid...)
		b.open = new(part)
	}
	*p = part{slice: p.next(), watched: p.watched[:0]}
	b.counts.count(receipts)
	if len(invalid) > 0 {
		err = errors.Join(append(invalid, err)...)
	}
	if err != nil {
		failed := b.counts
		failed.Err = err
		err = &failed
	}
	return b.yield(receipts, err) && !b.stopped
}

// leave sets the status of the jobs of a slice that is not sent, so that Repeat sends those of a PushOnce.
func (c *Client) leave(s *slice) {
	if !s.once {
		s.fail(StatusNotPushed, nil)
		return
	}
	if c.place == nil {
		s.fail(StatusNotPushed, c.spaces[0].newOncePush(s.load))
		return
	}
	for _, part := range s.split() {
		part.fail(StatusNotPushed, part.space.newOncePush(part.load))
	}
}

func (e *BulkError) count(receipts []Receipt) {
	for i := range receipts {
		switch receipts[i].Status {
		case StatusQueued, StatusScheduled:
			e.Queued++
		case StatusRefused:
			e.Refused++
		case StatusDuplicate:
			e.Duplicates++
		case StatusUnknown:
			e.Unknown++
		case StatusNotPushed:
			e.NotPushed++
		}
	}
}

// report calls the callbacks of a part.
func (p *part) report(err error) {
	for _, push := range p.watched {
		push.call(p.receipts[push.at], cmp.Or(push.err, err))
	}
	clear(p.watched)
}
