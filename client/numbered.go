package client

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

const (
	// DefaultRepeatFor is how long a client repeats a push by itself. It outlasts a failover of a second or
	// two and most restarts; who waits for longer would rather be told.
	DefaultRepeatFor = 10 * time.Second
	// answerIn is how long one request may take. A slice of lua.MostBytes takes that on a slow line, and
	// would never arrive if it were less.
	answerIn = 5 * time.Second
	// The first repetition comes at once, for a cut connection is soon replaced; the pauses before later ones
	// grow from leastPause to mostPause, for a server that starts is not there sooner for being asked more
	// often.
	leastPause, mostPause = 10 * time.Millisecond, time.Second
)

// A numbered is a push that is stored once however often it is sent: its jobs, its number in a slot, and what
// is known of it.
type numbered struct {
	client *Client
	jobs   []lua.UniqueJob
	unique bool
	mark   string

	turn chan struct{} // whose element is held while it is sent; it guards what is below
	slot *slot         // its own while it may have to be sent under the same number again
	// number, and since when (SinceBoot), of a push that is ambiguous: a request was not answered.
	number    int64
	ambiguous bool
	since     time.Duration
	stored    bool
	holders   []string // of a push of unique jobs that is stored: see lua.PushedUnique
	spent     error    // why it cannot be sent again
	// dropped gives the slot back when the last receipt has been dropped by which an ambiguous push could be
	// repeated.
	dropped runtime.Cleanup
}

func (c *Client) number(s *slice) *numbered {
	return &numbered{client: c, jobs: s.jobs, unique: s.unique, mark: job.NewJID(), turn: make(chan struct{}, 1)}
}

// send sends the push until its outcome is known, or time is up. An error says what is known.
func (n *numbered) send(ctx context.Context) (Status, error) {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return StatusUnknown, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err()) // somebody else is asking
	}
	if n.stored {
		return "", nil
	}
	if err := n.client.slots.enter(ctx); err != nil {
		return n.outcome(err)
	}
	defer n.client.slots.leave()
	return n.outcome(n.persist(ctx))
}

// persist sends the push again while its outcome is unknown and that may change.
func (n *numbered) persist(ctx context.Context) error {
	begun := time.Now()
	var backoff lua.Backoff
	for wait := time.Duration(0); ; wait = backoff.Next(leastPause, mostPause) {
		err := n.once(ctx)
		if err == nil || !n.ambiguous || n.spent != nil || !driver.Outage(err) {
			return err
		}
		if time.Since(begun)+wait > n.client.cfg.RepeatFor || !sleep(ctx, wait) {
			return err
		}
	}
}

// sleep says whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once sends the push, and notes what is known after that.
func (n *numbered) once(ctx context.Context) error {
	sent := lua.SinceBoot()
	if n.ambiguous && sent-n.since > RepeatWindow {
		n.spent = fmt.Errorf("%w: it was first sent more than %v ago", ErrNotRepeatable, RepeatWindow)
	}
	if n.spent != nil {
		return n.spent
	}
	word, err := n.ask(ctx)
	switch {
	case word == lua.PushStored:
		n.slot.number, n.stored = n.number, true
		n.client.refusals.tell(time.Now(), n.jobs, n.holders)
	case word == lua.PushStale:
		return n.collided(ctx)
	case !driver.Certain(err) && !n.ambiguous:
		n.slot.number, n.slot.late = n.number, true
		n.ambiguous, n.since = true, sent
		n.dropped = runtime.AddCleanup(n, n.client.slots.give, n.slot)
	}
	return err
}

func (n *numbered) ask(ctx context.Context) (string, error) {
	c := n.client
	if n.slot == nil {
		n.slot = c.slots.take()
		n.number = n.slot.number + 1
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	number := lua.IdempotencyKey{Slot: n.slot.key, Number: n.number, Mark: n.mark, Remember: remember}
	if n.unique {
		push := c.keys.PushUnique(&number, n.jobs)
		answer, err := push.Read(c.do(ctx, push.Call))
		n.holders = answer.Holders
		return answer.Word, err
	}
	batches, later := sorted(n.jobs)
	push := c.keys.PushOnce(number, batches, later)
	return push.Read(c.do(ctx, push.Call))
}

// collided is for a push under whose number Redis knows another: a program that was copied while it ran (a
// snapshot of its machine) is at work twice. Nothing of this push is there, unless it was ambiguous; then
// only people can say.
func (n *numbered) collided(ctx context.Context) error {
	n.client.slots.rename(n.slot)
	n.slot = nil
	if n.ambiguous {
		n.dropped.Stop()
		n.spent = fmt.Errorf("%w: a copy of this program has pushed under its number", ErrNotRepeatable)
		return n.spent
	}
	return n.once(ctx) // by the new name
}

// outcome says what an error means, and gives back the slot unless the number may be needed again.
func (n *numbered) outcome(err error) (Status, error) {
	if !n.ambiguous || n.stored {
		n.dropped.Stop()
		if n.slot != nil {
			n.client.slots.give(n.slot)
			n.slot = nil
		}
	}
	switch {
	case err == nil:
		n.jobs = nil
		return "", nil
	case n.ambiguous:
		return StatusUnknown, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return pushError(err)
}
