package belay

import (
	"context"
	"errors"
	"fmt"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/launcher"
)

type (
	// A Batch is a number of jobs with callbacks at their common end: NewBatch makes it. Its methods are ID,
	// Seal, Status, Wait and Invalidate.
	Batch = client.Batch
	// BatchConfig describes a batch. Its fields, all of them optional: ID, Description, Parent, Queue, and the
	// callbacks OnComplete, OnSuccess and OnDeath; see go doc github.com/belayq/belay/client.BatchConfig.
	BatchConfig = client.BatchConfig
	// BatchStatus is what is known about a batch: its State, how many members it has, and how many of them are
	// pending, have failed, have died or were removed.
	BatchStatus = client.BatchStatus
)

var (
	// ErrBatchOver is the error of a push into a batch that is over or does not exist, and of NewBatch if a
	// batch with the ID of the config is sealed. Nothing was stored.
	ErrBatchOver = client.ErrBatchOver
	// ErrNoBatch is the error of Client.OpenBatch, and of a Batch's methods, if there is no such batch.
	ErrNoBatch = client.ErrNoBatch
	// ErrBatchDead is the error of Batch.Wait if no member is left but dead ones.
	ErrBatchDead = client.ErrBatchDead
)

// NewBatch makes a batch, calls fill, which pushes the members with the option InBatch, and seals the batch
// when fill returns nil. The callbacks of the config are pushed: OnComplete when each member has run once,
// OnSuccess when each is done, and OnDeath when the first one dies; see BatchConfig. Each is pushed once, in
// the step that ends the run which decides it, or in the seal, so no crash loses or repeats one.
//
// If fill returns an error, the batch stays open, and no callback but OnDeath is pushed: call fill's pushes
// again and then Batch.Seal, or leave it. A batch is deleted thirty days after its last push, and a day after
// its success. A program that must be able to go on after a crash gives the batch and its members ids of their
// own; see BatchConfig.ID. If a batch with that ID is sealed already, such as by the run before the crash, the
// error is ErrBatchOver, and fill is not called.
//
// A worker program of a version without batches would not count the members that it runs. So NewBatch and
// pushes with InBatch fail with ErrOldWorker while such a worker is registered.
func NewBatch(ctx context.Context, c *Client, cfg BatchConfig, fill func(b *Batch) error) (*Batch, error) {
	open(c, "NewBatch")
	if fill == nil {
		return nil, errors.New("belay: NewBatch: fill is nil; Client.NewBatch makes a batch that you seal yourself")
	}
	b, err := c.NewBatch(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := fill(b); err != nil {
		return b, fmt.Errorf("belay: fill the batch %s: %w", b.ID(), err)
	}
	return b, b.Seal(ctx)
}

// InBatch makes the job a member of a batch. The push has an idempotency key, as with PushOnce. It fails with
// ErrBatchOver if the batch is over. A job that is refused, by middleware or as a duplicate, is no member.
func InBatch(b *Batch) JobOption {
	return func(i *RawJob) {
		if b == nil {
			i.Fail(errors.New("InBatch: the batch is nil; check the error of NewBatch"))
		}
		i.Batch = b
	}
}

// BatchOf returns the batch of the job that a handler runs: that of which the job is a member, into which the
// handler may push more jobs with InBatch, or that whose callback the job is. ok is false for other jobs, and
// outside of a handler. The batch pushes with the Client of the Server.
func BatchOf(ctx context.Context) (b *Batch, ok bool) {
	name, pusher, ok := launcher.BatchOf(ctx)
	c, isClient := pusher.(*Client)
	if !ok || !isClient {
		return nil, false
	}
	return c.BatchNamed(name), true
}

// BatchInvalid reports whether Batch.Invalidate was called for the batch of the job that a handler runs. The
// process learns of it with its next heartbeat. Members that have not started are dropped; one that runs
// decides itself.
func BatchInvalid(ctx context.Context) bool { return launcher.BatchInvalid(ctx) }
