package fetch

import (
	"context"
	"slices"
	"time"

	"github.com/belayq/belay/lua"
)

// The queues of a process may change while it runs. Its record in Redis names all lists that may hold its jobs,
// so at each instant
//
//	queues that are taken from ⊆ queues whose lists may hold a job of ours ⊆ queues that the record names.
//
// A queue that comes is written into the record first (Session.Serve). When that is confirmed, Keyspace.Serve
// makes the loop take from it. A queue that goes does so in the reverse order: Keyspace.Serve ends its takes
// and its wait, while its running jobs continue and its working list is still read (leaving). When nothing
// that could bring a job from it is in flight, Keyspace.Left returns it. Session.Serve removes it from the
// record, unless its working list has a job, and Keyspace.Drop makes the loop forget it. A crash between two
// of these steps leaves a record that names too many queues, which harms nothing.

// leaveAfter is how long a queue that goes stays in the record after a call with an unknown result: the call
// may have been a take, or a wait, that Redis executes late. It is longer than a wait lasts, and begins anew
// with each failure: a Redis that was stopped executes such calls as soon as it continues, and the record
// changes later.
const leaveAfter = 2 * maxWait

// SetOrders replaces the orders of the shares. Call it before Open.
func (l *Loop) SetOrders(orders []*QueueOrder) {
	for i, share := range l.shares {
		share.Order = orders[i]
	}
}

// Serve makes the loop take from the queues of these orders, one for each share. The records of the sessions
// here must name the queues before. It returns when the loop has begun to, or the error of ctx.
func (k *Keyspace) Serve(ctx context.Context, orders []*QueueOrder) error {
	return k.loop.do(ctx, func() { k.serve(orders) })
}

func (k *Keyspace) serve(orders []*QueueOrder) {
	for i, in := range k.intakes {
		in.order = orders[i]
	}
	k.follow()
	k.loop.allotWaits()
}

// Left returns those of the queues that are taken from no more, or never were, and of which nothing is in
// flight: a record may stop naming them as soon as their working lists are empty.
func (k *Keyspace) Left(ctx context.Context, queues []string) (left []string, err error) {
	err = k.loop.do(ctx, func() {
		now := time.Now()
		for _, name := range queues {
			if q := k.queues[name]; q == nil || k.hasLeft(q, now) {
				left = append(left, name)
			}
		}
	})
	if err != nil {
		return nil, err // the loop may still write left
	}
	return left, nil
}

// Drop makes the loop forget queues that Left has returned and that the record names no more.
func (k *Keyspace) Drop(ctx context.Context, queues []string) error {
	return k.loop.do(ctx, func() {
		for _, name := range queues {
			if q := k.queues[name]; q != nil && q.leaving {
				q.drop()
			}
		}
		k.nameQueues()
	})
}

// do calls run in the loop's goroutine, and waits for it until ctx ends. Then run may still be called later.
func (l *Loop) do(ctx context.Context, run func()) error {
	done := make(chan struct{})
	select {
	case l.requests <- func() { run(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow makes the queues those of the intakes' orders.
func (k *Keyspace) follow() {
	for _, in := range k.intakes {
		names := in.order.Names()
		for _, name := range names {
			switch q := k.queues[name]; {
			case q == nil:
				k.queues[name] = &queueState{name: name, intake: in}
				in.queues = append(in.queues, k.queues[name])
				in.empty = false
			case q.leaving:
				q.leaving, in.empty = false, false
			}
		}
		for _, q := range in.queues {
			if !q.leaving && !slices.Contains(names, q.name) {
				q.leave()
			}
		}
	}
	k.nameQueues()
}

// leave ends the takes from a queue.
func (q *queueState) leave() {
	k := q.intake.space
	q.leaving, q.quarantined = true, false
	if !q.backOffUntil.IsZero() {
		q.backOffUntil = time.Time{}
		k.backedOff--
	}
	if of := &k.loop.quarantine; of.toDrain == q {
		of.toDrain = nil
	} else if of.draining == q {
		of.endDrain()
	}
	q.release()
}

// drop removes a queue that has left.
func (q *queueState) drop() {
	q.intake.queues = slices.DeleteFunc(q.intake.queues, func(other *queueState) bool { return other == q })
	delete(q.intake.space.queues, q.name)
}

// hasLeft reports whether a queue is leaving and no call is in flight that may bring a job from it. Its working
// list may still have jobs.
func (k *Keyspace) hasLeft(q *queueState, now time.Time) bool {
	of := &k.loop.quarantine
	if !q.leaving || q.wait != nil || q.takes > 0 || of.asking == k || of.draining == q || of.toDrain == q || of.toUndrain == q ||
		k.reconcile.unsure || k.reconcile.quarantineUnsure || now.Sub(k.doubtedAt) < leaveAfter {
		return false
	}
	for s := range k.ledger.lists {
		for r := range k.ledger.in(state(s)) {
			if r.Queue == q.name {
				return false
			}
		}
	}
	return true
}

// allotWaits divides the waits of the process among the intakes of all keyspaces: as many as each has queues,
// the smallest first, and equal parts of the rest. With more keyspaces than waits some keyspaces have none,
// and takes read them. Each process begins at another keyspace, or the same ones would have no waits of any
// process.
func (l *Loop) allotWaits() {
	left := lua.MaxWaits
	var intakes []*intake
	for i := range l.spaces {
		intakes = append(intakes, l.spaces[(l.waitsFrom+i)%len(l.spaces)].intakes...)
	}
	bySize := slices.SortedStableFunc(slices.Values(intakes), func(a, b *intake) int {
		return len(a.order.Names()) - len(b.order.Names())
	})
	for i, in := range bySize {
		in.quota = min(len(in.order.Names()), left/(len(bySize)-i))
		left -= in.quota
	}
}
