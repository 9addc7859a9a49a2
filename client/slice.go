package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// A slice is a number of jobs that one call stores, all or none of them. Refused jobs are in it for their
// receipts only.
type slice struct {
	receipts []Receipt
	load
	at    []int         // for each job of the load, the index of its receipt
	to    []destination // and its shard; nil without shards
	begun time.Time
	usual int  // how many receipts it will probably have; 0 if nothing is known
	page  int  // how many bytes it should have; 0 until full has asked
	once  bool // one job is PushOnce, so the whole slice is
	needs int  // the highest protocol that one of its jobs needs
}

// A load is the jobs that one call stores.
type load struct {
	jobs    []lua.NewJob
	bytes   int  // of their payloads
	checked bool // one job takes a lock or joins a batch, so not each job may be stored
	durability
}

// next returns an empty slice. It reuses the memory of this one's jobs, unless they may have to be sent again.
func (s *slice) next() slice {
	if s.once {
		return slice{usual: len(s.receipts)}
	}
	clear(s.jobs) // so that their payloads can be collected
	return slice{load: load{jobs: s.jobs[:0]}, at: s.at[:0], to: s.to[:0], usual: len(s.receipts)}
}

// add adds a job. here is the time, which only a bulk push needs.
func (s *slice) add(r *ready, here time.Time) {
	if len(s.receipts) == 0 {
		s.begun, s.receipts = here, make([]Receipt, 0, max(s.usual, 1))
	}
	s.receipts = append(s.receipts, r.Receipt)
	if !r.Status.stored() {
		return
	}
	s.jobs = append(s.jobs, r.stored)
	s.at = append(s.at, len(s.receipts)-1)
	if r.Shard != "" {
		s.to = append(s.to, destination{r.space, r.bound})
	}
	s.once = s.once || r.once
	s.needs = max(s.needs, r.needs)
	s.checked = s.checked || r.stored.Lock != nil || r.stored.Member != nil
	s.durability = s.durability.with(r.durability)
	s.bytes += len(r.stored.Job)
}

// full reports whether the slice has as many bytes as a call should carry on this link, or a payload of the
// maximum length would no longer fit in one call. Callers ask after they have added a job: a job that was taken
// from the caller's iterator is always in the slice that reports its failure.
func (s *slice) full(limit int, page func() int) bool {
	if s.page == 0 {
		s.page = page() // once, because it takes a lock
	}
	return len(s.receipts) >= lua.MaxItems || s.bytes >= s.page || s.bytes+limit > lua.MaxBytes
}

// end writes the outcome of the call that stored the slice into the receipts: what Redis answered, or the
// caller's error, which it returns. It returns an ErrReplicas too. push sends the jobs again on request; it is
// nil if that is not possible.
func (s *slice) end(a answer, err error, push *oncePush) error {
	if err != nil {
		s.fail(statusOf(err), push)
		return err
	}
	for i, at := range s.at {
		a.write(&s.receipts[at], i, s.jobs[i].Mark)
	}
	return a.confirmed.err
}

// fail sets the status of all jobs to store.
func (s *slice) fail(status Status, push *oncePush) {
	jobs := make([]unstored, len(s.at))
	for i, at := range s.at {
		r := &s.receipts[at]
		jobs[i] = unstored{push, i, r.Status, s.jobs[i].Mark}
		r.Status, r.unstored = status, &jobs[i]
	}
}

// restore undoes fail, to send the slice again.
func (s *slice) restore() {
	for _, at := range s.at {
		r := &s.receipts[at]
		r.Status, r.unstored = r.unstored.planned, nil
	}
}

// send stores the jobs of a slice: all of them except duplicates, or none. Afterwards their receipts have the
// known outcome.
func (s *space) send(ctx context.Context, jobs *slice) error {
	if len(jobs.jobs) == 0 {
		return nil
	}
	if err := s.mayPush(ctx, jobs.needs); err != nil {
		return jobs.end(answer{}, err, nil)
	}
	if jobs.once {
		push := s.newOncePush(jobs.load)
		err := push.send(ctx)
		return jobs.end(push.answer, err, push)
	}
	a, err := s.store(ctx, nil, jobs.load)
	return jobs.end(a, outcomeOf(err), nil)
}

// mayPush returns why no job that needs a protocol may be pushed now.
func (s *space) mayPush(ctx context.Context, needs int) error {
	if s.name != "" {
		if err := s.admit(ctx); err != nil {
			return fmt.Errorf("belay: not pushed: %w", err)
		}
	}
	return s.checkWorkers(ctx, needs)
}

// currentFor is how long the answer that no worker is too old is used: a program is seldom replaced by an older
// one, and then these pushes are refused some seconds late.
const currentFor = 5 * time.Second

// checkWorkers refuses jobs that need a higher protocol than some process on this keyspace understands: that
// process could take them and handle them wrongly. Jobs that every worker understands cost no round trip,
// others two in currentFor.
func (s *space) checkWorkers(ctx context.Context, needs int) error {
	now := time.Since(s.born)
	if needs <= lua.FirstProtocol || needs <= lua.Protocol && int64(now) < s.currentUntil.Load() {
		return nil
	}
	lowest, identity, err := s.keys.MinProtocol(ctx, s.driver)
	switch {
	case driver.Forbidden(err): // this user may only push: nothing is known to be wrong
	case err != nil:
		return fmt.Errorf("belay: not pushed: read the protocol of the workers: %w", err)
	case identity != "" && lowest < needs:
		return fmt.Errorf("belay: not pushed: %w: the job needs protocol %d, and the process %s understands %d: update its program first",
			ErrOldWorker, needs, identity, lowest)
	}
	if needs <= lua.Protocol {
		s.currentUntil.Store(int64(now + currentFor))
	}
	return nil
}

// An answer is Redis' reply to a call that has stored a load.
type answer struct {
	// holders has, if the load is unique, for each duplicate the jid of the job that holds its lock, and "" for
	// any other job.
	holders []string
	confirmed
}

// write writes what Redis answered about the load's job at i into its receipt.
func (a *answer) write(r *Receipt, i int, marked bool) {
	r.Replicas = a.replicas
	if i < len(a.holders) && a.holders[i] != "" {
		r.setHolder(a.holders[i], marked)
	}
}

// do sends the calls of a load and returns the reply to the last one, and what replicas have confirmed.
func (s *space) do(ctx context.Context, l load, once bool, calls ...driver.Call) (driver.Reply, confirmed) {
	withTime := s.timeIsDue()
	if l.replicas > 0 {
		if withTime {
			s.askTime(ctx) // by a call of its own: with a wait in it, the call would not measure the time
		}
		return s.durable.push(ctx, l.durability, l.bytes, once, calls)
	}
	if withTime { // in the same round trip
		calls = append([]driver.Call{lua.AskTime}, calls...)
	}
	begun := time.Now()
	replies := s.link.Carry(ctx, 0, calls...)
	if withTime {
		s.sawTime(replies[0], begun)
	}
	return replies[len(replies)-1], confirmed{}
}

// store sends a load once, and logs the duplicates that were refused. If the load is checked, the answer's
// holders have, for each duplicate, the jid of the job that holds its lock, and "" for any other job. A request
// with an idempotency key may be sent again, so it has a deadline of its own, and its error may be ErrStale.
// That of a durable push is set when its turn has come.
func (s *space) store(ctx context.Context, key *lua.IdempotencyKey, l load) (a answer, err error) {
	if key != nil && l.replicas == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.link.Allowed(l.bytes))
		defer cancel()
	}
	var reply driver.Reply
	var push lua.Ask[lua.Pushed]
	switch {
	case l.checked:
		push = s.keys.PushUnique(key, l.jobs)
	case key == nil && l.oneQueue():
		reply, a.confirmed = s.do(ctx, l, false, s.keys.PushOne(l.jobs)...)
		return a, reply.Err
	default:
		push = s.keys.Push(key, l.jobs)
	}
	reply, a.confirmed = s.do(ctx, l, key != nil, push.Call)
	pushed, err := push.Read(reply)
	switch {
	case err != nil:
		return answer{}, err
	case pushed.Word == lua.PushStale:
		return answer{}, ErrStale
	case pushed.Word == lua.PushOver:
		return answer{}, errOver
	}
	s.refusals.log(time.Now(), l.jobs, pushed.Holders)
	a.holders = pushed.Holders
	return a, nil
}

// outcomeOf returns the error for the caller of a push whose call returned err.
func outcomeOf(err error) error {
	if err == nil || errors.Is(err, ErrStale) {
		return err
	}
	switch {
	case !driver.Certain(err):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case driver.OutOfMemory(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	default:
		return fmt.Errorf("belay: not pushed: %w", err)
	}
}

// statusOf returns the status of the jobs of a call whose caller gets err.
func statusOf(err error) Status {
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrStale) {
		return StatusUnknown
	}
	return StatusNotPushed
}

// errOver is an error of the server: it is certain that nothing was stored, and it is no outage.
var errOver = fmt.Errorf("%w%w", ErrBatchOver, &driver.ServerError{Code: lua.PushOver})

// oneQueue reports whether all of the jobs are for one queue, now.
func (l *load) oneQueue() bool {
	for i := range l.jobs {
		if j := &l.jobs[i]; j.Later() || j.Queue != l.jobs[0].Queue {
			return false
		}
	}
	return true
}
