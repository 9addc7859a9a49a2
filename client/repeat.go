package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Repeat sends the push of a PushOnce job again, unless its receipt says that the job is stored or was
// refused, and answers as Push does: the receipt with its new Status, and the error of a push. What was
// stored before is not stored again; where other jobs were pushed with this one, in one slice, all of them
// are sent. It may be called from any goroutine, with copies of one receipt too.
//
// Once a push was ambiguous, only Redis' answer that it is stored makes it known: a refusal does not, since
// what was sent first may still arrive. So it stays ErrUnknown until then. A push that has certainly failed
// is made anew; a job for later counts its delay from when it is stored.
//
// The error is ErrNotRepeatable, and nothing is sent, for a job that was not PushOnce or was first sent
// longer ago than RepeatWindow, by a clock that counts while the machine sleeps. Within that time "once"
// holds as long as Redis keeps what it was given: not after FLUSHALL, after the eviction of its key (see
// belay check), or when Redis' clock was set ahead by a day. What a restart of Redis loses it loses of both,
// the jobs and the memory of them, and Repeat stores them again.
func (c *Client) Repeat(ctx context.Context, r Receipt) (Receipt, error) {
	switch {
	case r.Status.stored() || r.Status == StatusRefused || r.Status == StatusDuplicate:
		return r, nil
	case r.push == nil:
		return r, r.still(fmt.Errorf("%w: the job was not pushed as PushOnce, or not sent", ErrNotRepeatable))
	case r.push.client != c:
		return r, r.still(fmt.Errorf("%w: another client has pushed it", ErrNotRepeatable))
	}
	status, err := r.push.send(ctx)
	if err != nil {
		r.Status = status
		return r, err
	}
	stored := Receipt{JID: r.JID, Queue: r.Queue, Status: r.then}
	if holders := r.push.holders; r.at < len(holders) && holders[r.at] != "" {
		stored.meet(holders[r.at], r.marks)
	}
	return stored, nil
}

// still adds to an error that the outcome is as unknown as it was.
func (r Receipt) still(err error) error {
	if r.Status == StatusUnknown {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// RepeatMany repeats what receipts are not known to be stored, and answers all of them with what is known
// then, in their order: those of PushMany, or of pushes gathered by the caller. A slice is sent once for all
// its receipts. Receipts that are ErrNotRepeatable do not keep it from the others; at the first other error
// it stops.
func (c *Client) RepeatMany(ctx context.Context, receipts []Receipt) ([]Receipt, error) {
	all := slices.Clone(receipts)
	var wrong []error
	named := make(map[*oncePush]bool) // pushes whose error is in wrong
	for i := range all {
		push := all[i].push
		var err error
		if all[i], err = c.Repeat(ctx, all[i]); err == nil {
			continue
		}
		if !named[push] {
			named[push], wrong = true, append(wrong, err)
		}
		if !errors.Is(err, ErrNotRepeatable) {
			sameFate(all[i:], push, all[i].Status)
			break
		}
	}
	return all, errors.Join(wrong...)
}

// sameFate gives the status to all receipts of a push.
func sameFate(receipts []Receipt, push *oncePush, status Status) {
	for i := range receipts {
		if receipts[i].push == push {
			receipts[i].Status = status
		}
	}
}
