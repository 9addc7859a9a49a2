package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Repeat sends the push of a PushOnce job again, unless its receipt says that the job is stored or was
// refused. It returns the receipt with its new Status, and the same errors as Push. A job that was stored
// before is not stored again. If other jobs were pushed in the same slice, all of them are sent. Repeat may
// be called from any goroutine, even with copies of one receipt.
//
// After an unknown outcome, only a reply that the job is stored settles it. A refusal does not, because the
// first request may still arrive; the error stays ErrUnknown. A push that has certainly failed is pushed
// anew. The delay of a scheduled job counts from the time when it is stored.
//
// The error is ErrNotRepeatable, and nothing is sent, if the job was not PushOnce or was first sent longer
// ago than RepeatWindow, by a clock that also counts while the machine is suspended. Within that time the job
// is stored once as long as Redis keeps its idempotency key. Redis does not keep it after FLUSHALL, after an
// eviction (see belay check), or if its clock was set ahead by a day. A restart of Redis that loses the key
// also loses the job, and Repeat stores it again.
func (c *Client) Repeat(ctx context.Context, r Receipt) (Receipt, error) {
	push := r.repeats()
	switch {
	case r.Status.stored() || r.Status == StatusRefused || r.Status == StatusDuplicate:
		return r, nil
	case push == nil:
		return r, r.stillUnknown(fmt.Errorf("%w: the job was not pushed as PushOnce, or not sent", ErrNotRepeatable))
	case !slices.Contains(c.spaces, push.space):
		return r, r.stillUnknown(fmt.Errorf("%w: another client has pushed it", ErrNotRepeatable))
	}
	if err := push.send(ctx); err != nil {
		r.Status = statusOf(err)
		return r, err
	}
	stored := Receipt{JID: r.JID, Queue: r.Queue, Shard: r.Shard, Status: r.unstored.planned}
	push.answer.write(&stored, r.unstored.at, r.unstored.marks)
	return stored, push.answer.err
}

// stillUnknown adds to an error that the outcome is still unknown.
func (r Receipt) stillUnknown(err error) error {
	if r.Status == StatusUnknown {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// RepeatMany repeats the pushes whose receipts are not known to be stored, and returns all receipts in their
// order, updated. The receipts may come from PushMany or from single pushes. A slice is sent once for all
// its receipts. After an ErrNotRepeatable it continues with the other receipts; at the first other error it
// stops.
func (c *Client) RepeatMany(ctx context.Context, receipts []Receipt) ([]Receipt, error) {
	all := slices.Clone(receipts)
	var errs []error
	named := make(map[*oncePush]bool) // pushes whose error is in errs
	for i := range all {
		push := all[i].repeats()
		var err error
		if all[i], err = c.Repeat(ctx, all[i]); err == nil {
			continue
		}
		if !named[push] {
			named[push], errs = true, append(errs, err)
		}
		if !errors.Is(err, ErrNotRepeatable) {
			for k := range all[i:] {
				if all[i+k].repeats() == push {
					all[i+k].Status = all[i].Status // those of its slice that are still to come
				}
			}
			break
		}
	}
	return all, errors.Join(errs...)
}
