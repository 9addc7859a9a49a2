package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belayq/belay/batch"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

var (
	// ErrBatchOver is the error of a push into a batch that is over or does not exist, and of NewBatch for an
	// id of a batch that is sealed. Nothing was stored.
	ErrBatchOver = errors.New("the batch is over, or does not exist")
	// ErrNoBatch is the error of OpenBatch, and of a Batch's methods, if Redis has no batch with the id: it was
	// deleted, has expired, or was never made.
	ErrNoBatch = errors.New("there is no such batch")
	// ErrBatchDead is the error of Batch.Wait if no member is left but dead ones, and nested batches that have
	// dead ones: the batch ends only if an operator retries or deletes them.
	ErrBatchDead = errors.New("all members of the batch that are left have died")
)

// errEmptyBatch is the error for a Batch that no function of this package has made.
var errEmptyBatch = errors.New("the batch is empty; NewBatch and OpenBatch make one")

// A sealedError is the ErrBatchOver of NewBatch for the id of a batch that is sealed.
type sealedError struct{}

func (sealedError) Error() string {
	return "a batch with this id exists and is sealed; choose another id"
}

func (sealedError) Is(target error) bool { return target == ErrBatchOver }

// A BatchConfig describes a batch to make. All fields are optional.
type BatchConfig struct {
	// ID names the batch: 1 to 64 letters, digits, dots, dashes and underscores. A program that makes a batch
	// with an ID of its own, and gives its members jids of its own, may repeat all of it after a crash: a batch
	// that is not sealed is opened again, and a pending member is not stored twice. Default: 24 random
	// hexadecimal digits.
	ID string
	// Description is for people.
	Description string
	// OnComplete is pushed when each member has run once: it is done, has failed or has died. OnSuccess is
	// pushed when each member is done, or was cancelled, deleted or dropped because it had expired. OnDeath is
	// pushed when the first member dies, also one of a nested batch: it runs again only if an operator retries
	// it. Each is pushed once, in the step that ends the run that decides it, and is an ordinary job: it has
	// retries of its own, and its handler finds the batch with BatchOf. A callback has no In, At, Key, Unique,
	// ExpiresIn or Deadline, is in no batch, and its payload has at most 16 KiB. Default: none.
	OnComplete, OnSuccess, OnDeath RawJob
	// Queue is the queue of the callbacks. Default: their own, which must be the same for all of them; for a
	// nested batch without callbacks that of the parent's.
	Queue string
	// Parent is the batch in which this one is nested. The parent is complete once this batch is complete and
	// its OnComplete has run, and over once this batch is over and its OnSuccess is done. It counts a nested
	// batch as two members, one of which is dead while the nested batch has dead members. Default: none.
	Parent *Batch
}

// A Batch is a number of jobs with callbacks at their common end. Client.NewBatch makes it; the jobs join it
// with RawJob.Batch. It may be used from any goroutine.
type Batch struct {
	client *Client
	space  *space
	name   lua.Batch
}

// ID returns the id of the batch.
func (b *Batch) ID() string { return b.name.ID }

// NewBatch makes a batch, or opens one with its ID again that is not sealed. Push its members, and then Seal
// it: until then it is neither complete nor over. The error is an *InvalidError for invalid callbacks,
// ErrBatchOver if a batch with the ID is sealed, or if the parent is over, ErrOldWorker while a process of an
// older version is registered, which would not count its members, and else that of a push.
func (c *Client) NewBatch(ctx context.Context, cfg BatchConfig) (*Batch, error) {
	if cfg.Parent != nil && cfg.Parent.space == nil {
		return nil, fmt.Errorf("belay: make the batch: its Parent: %w", errEmptyBatch)
	}
	anywhere := c.place != nil && cfg.ID == "" && cfg.Parent == nil
	for tried := 1; ; tried++ {
		own := cfg
		bound := false
		if own.ID == "" {
			own.ID, bound = c.newBatchID(&own)
		}
		elsewhere := anywhere && !bound && tried < len(c.place.bound)
		b, err := c.newBatch(ctx, own, elsewhere)
		if err == nil {
			return b, nil
		}
		if !elsewhere || ctx.Err() != nil || !absent(err) {
			return nil, err
		}
		c.batchSpace(own.ID).note(ctx, err)
	}
}

// newBatch makes a batch that has an ID. If another shard will do as well, the call is not sent again to one
// that is away.
func (c *Client) newBatch(ctx context.Context, cfg BatchConfig, elsewhere bool) (*Batch, error) {
	b, made, err := c.batchOf(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("belay: make the batch: %w", err)
	}
	if err := b.space.mayPush(ctx, lua.BatchProtocol); err != nil {
		return nil, b.space.of(err)
	}
	// The first durable push of a member waits for it.
	word, err := doAgain(ctx, b.space, durability{}, b.space.keys.NewBatch(made), elsewhere)
	switch {
	case err != nil:
		return nil, fmt.Errorf("belay: make the batch %s: %w", cfg.ID, outcomeOf(err))
	case word == lua.BatchOver:
		return nil, fmt.Errorf("belay: make the batch %s: %w", cfg.ID, sealedError{})
	case word == lua.BatchOrphan:
		return nil, fmt.Errorf("belay: make the batch %s: its parent %s: %w", cfg.ID, cfg.Parent.ID(), ErrBatchOver)
	}
	return b, nil
}

// batchOf checks the config, and encodes the callbacks.
func (c *Client) batchOf(ctx context.Context, cfg BatchConfig) (*Batch, lua.NewBatch, error) {
	queue, badQueue := cfg.queue()
	b := c.BatchNamed(lua.Batch{ID: cfg.ID, Queue: queue})
	made := lua.NewBatch{Batch: b.name, Description: cfg.Description, Unit: c.cfg.Unit}
	errs := []error{lua.CheckBatchID(cfg.ID), badQueue}
	if len(cfg.Description) > batch.MaxCallback {
		errs = append(errs, fmt.Errorf("its description is %d bytes long; at most %d are allowed", len(cfg.Description), batch.MaxCallback))
	}
	if cfg.Parent != nil && cfg.Parent.space != b.space {
		errs = append(errs, fmt.Errorf("it is on shard %q, and its parent on shard %q: begin its ID with \"%s.\"",
			b.space.name, cfg.Parent.space.name, cfg.Parent.space.name))
	}
	if cfg.Parent != nil {
		made.Parent = cfg.Parent.name
	}
	add := func(name string, j RawJob, endsInParent bool) (jid, text string) {
		if j.Class == "" && endsInParent {
			j.Class = batch.NothingClass
		}
		if j.Class == "" {
			return "", ""
		}
		if endsInParent {
			j.Batch = cfg.Parent
		}
		jid, text, err := c.callback(ctx, j, b)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return jid, text
	}
	made.Complete, made.OnComplete = add("OnComplete", cfg.OnComplete, cfg.Parent != nil)
	made.Success, made.OnSuccess = add("OnSuccess", cfg.OnSuccess, cfg.Parent != nil)
	_, made.OnDeath = add("OnDeath", cfg.OnDeath, false)
	if cfg.Parent != nil {
		_, made.OnNested = add("the job that counts its deaths in its parent", RawJob{Class: batch.NestedClass}, false)
	}
	return b, made, errors.Join(errs...)
}

// queue returns the queue of the callbacks.
func (cfg *BatchConfig) queue() (string, error) {
	if cfg.Queue != "" {
		return cfg.Queue, job.CheckQueue(cfg.Queue)
	}
	queue, other := "", ""
	for _, j := range []RawJob{cfg.OnComplete, cfg.OnSuccess, cfg.OnDeath} {
		if j.Class == "" {
			continue
		}
		own := cmp.Or(j.Queue, DefaultQueue)
		if queue != "" && own != queue {
			other = own
		}
		queue = cmp.Or(queue, own)
	}
	if other != "" {
		return queue, fmt.Errorf("its callbacks have the queues %q and %q: set BatchConfig.Queue, the queue of all of them", queue, other)
	}
	if queue == "" && cfg.Parent != nil { // its end jobs run where those of the parent do
		queue = cfg.Parent.name.Queue
	}
	return cmp.Or(queue, DefaultQueue), nil
}

// callback passes a callback through the middleware, checks it and encodes it.
func (c *Client) callback(ctx context.Context, j RawJob, of *Batch) (jid, text string, err error) {
	if j.needsOwnPush() || j.ExpiresIn != 0 || j.Deadline != 0 { // a script stores it, which decodes no payload
		return "", "", errors.New("a callback is pushed at the end of its batch: it has no In, At, Key, Unique (use NotUnique), ExpiresIn, Deadline or Replicas (Replicated)")
	}
	j.Queue, j.endOf, j.NotUnique = of.name.Queue, of, true
	var w writer
	var r ready
	switch err = c.pass(ctx, &w, &j, &r); {
	case err != nil:
		return "", "", err
	case r.Status == StatusRefused:
		return "", "", fmt.Errorf("middleware refused it: %s", r.Reason)
	}
	j.Queue = of.name.Queue                                              // the script stores it there
	if c.place != nil && (j.Batch == nil || j.Batch.space == of.space) { // else batchOf returns the error
		if _, err := c.place.place(c.boundKeys(&w, &j)...); err != nil {
			return "", "", &InvalidError{Class: j.Class, Err: err}
		}
	}
	if err = c.complete(&w, &j, of.space.nowFor(ctx, time.Time{}), false, &r); err != nil {
		return "", "", err
	}
	text, err = batch.Callback(r.stored.Job)
	return r.JID, text, err
}

// doAgain sends a call that may be repeated, and sends it again while Redis does not answer, for
// Config.RepeatFor. The answer of a durable one may come with ErrReplicas. If it can be sent elsewhere, it is
// sent again only if it may have been executed.
func doAgain[T any](ctx context.Context, s *space, d durability, ask lua.Ask[T], elsewhere bool) (answer T, err error) {
	begun, backoff := time.Now(), link.Backoff{First: minPause, Max: maxPause}
	for {
		reply, confirmed := s.do(ctx, load{durability: d}, true, ask.Call)
		if answer, err = ask.Read(reply); err == nil {
			return answer, confirmed.err
		}
		if elsewhere && absent(outcomeOf(err)) || !driver.Away(err) || !s.cfg.mayRepeat(ctx, begun, backoff.Next()) {
			return answer, err
		}
	}
}

// OpenBatch returns the batch with an id, which another program may have made.
func (c *Client) OpenBatch(ctx context.Context, id string) (*Batch, error) {
	if err := lua.CheckBatchID(id); err != nil {
		return nil, fmt.Errorf("belay: open a batch: %w", err)
	}
	s := c.batchSpace(id)
	read, err := s.readBatch(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Batch{c, s, lua.Batch{ID: id, Queue: read.Queue}}, nil
}

// BatchNamed returns the batch that a payload names, as in job.FieldBatch. It sends nothing.
func (c *Client) BatchNamed(name lua.Batch) *Batch { return &Batch{c, c.batchSpace(name.ID), name} }

// batchSpace returns the shard of a batch: the id says it.
func (c *Client) batchSpace(id string) *space {
	if c.place == nil {
		return c.spaces[0]
	}
	return c.spaces[c.place.ofBatch(id)]
}

// newBatchID draws the id of a batch. With shards it begins with the name of one, so that a program that has
// only the id finds the batch: that of the parent, or that of the callbacks, which is bound then, or one at
// random that is not left out.
func (c *Client) newBatchID(cfg *BatchConfig) (id string, bound bool) {
	id = job.NewJID()
	switch {
	case c.place == nil:
		return id, false
	case cfg.Parent != nil:
		return cfg.Parent.space.name + "." + id, false
	}
	for _, j := range []RawJob{cfg.OnSuccess, cfg.OnComplete, cfg.OnDeath} {
		var w writer
		j.setDefaults(&w)
		// If they are on several shards, callback returns the error.
		if keys := c.boundKeys(&w, &j); j.Class != "" && len(keys) > 0 {
			if at, err := c.place.place(keys...); err == nil {
				return c.spaces[at].name + "." + id, true
			}
		}
	}
	for range 16 * len(c.place.bound) { // so that a shard that is left out is hardly ever drawn
		if !c.leftOut(c.place.of(id)) {
			break
		}
		id = job.NewJID()
	}
	return c.spaces[c.place.of(id)].name + "." + id, false
}

// Seal records that the program that made the batch pushes no more members. Members may still push more: a
// batch is not over while one of them runs. A batch that is not sealed is neither complete nor over. With
// Config.Replicas Seal waits for replicas as a push does; after ErrReplicas it may be called again.
func (b *Batch) Seal(ctx context.Context) error {
	sealed, err := doAgain(ctx, b.space, b.client.durability(0, 0), b.space.keys.SealBatch(b.name), false)
	switch {
	case err != nil:
		return fmt.Errorf("belay: seal the batch %s: %w", b.name.ID, err)
	case !sealed:
		return fmt.Errorf("belay: seal the batch %s: %w", b.name.ID, ErrNoBatch)
	}
	return nil
}

// Invalidate makes members that have not started be dropped, as if they were cancelled: workers learn of it
// with their next heartbeat. Members that run find out with BatchInvalid.
func (b *Batch) Invalidate(ctx context.Context) error {
	_, err := doAgain(ctx, b.space, durability{}, b.space.keys.Mark([]lua.Mark{lua.BatchMark(b.name.ID)}), false)
	if err != nil {
		return fmt.Errorf("belay: invalidate the batch %s: %w", b.name.ID, err)
	}
	return nil
}

// BatchStatus is what is known about a batch.
type BatchStatus = lua.BatchStatus

// Status reads the figures of the batch. They are not of one instant: while members end, they may not fit
// together.
func (b *Batch) Status(ctx context.Context) (BatchStatus, error) {
	read, err := b.space.readBatch(ctx, b.name.ID)
	return read.BatchStatus, err
}

func (s *space) readBatch(ctx context.Context, id string) (lua.BatchRead, error) {
	read, ok, err := s.keys.ReadBatch(ctx, s.driver, id)
	switch {
	case err != nil:
		return read, fmt.Errorf("belay: read the batch %s: %w", id, err)
	case !ok:
		return read, fmt.Errorf("belay: read the batch %s: %w", id, ErrNoBatch)
	}
	return read, nil
}

// Wait waits until the batch is over, and returns its status. The error is nil then. It is ErrBatchDead if no
// member is left but dead ones, those of nested batches included, ErrNoBatch if there is no such batch, the
// error of ctx if that ends first, and the error of Redis if it refuses the read. Wait waits for the end of an
// outage.
func (b *Batch) Wait(ctx context.Context) (BatchStatus, error) {
	end, err := b.space.waits.wait(ctx, b.space, lua.BatchMessage(b.name.ID))
	switch {
	case err != nil:
		return end.batch, fmt.Errorf("belay: wait for the batch %s: %w", b.name.ID, err)
	case end.batch.SuccessAt.IsZero():
		return end.batch, fmt.Errorf("belay: wait for the batch %s: %w", b.name.ID, ErrBatchDead)
	}
	return end.batch, nil
}
