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
	// two and most restarts; a caller that waits for longer wants the error.
	DefaultRepeatFor = 10 * time.Second
	// answerIn is how long one request may take. A slice of lua.MostBytes takes that on a slow line, and
	// would never arrive if it were less.
	answerIn = 5 * time.Second
	// The first repetition comes at once, for a cut connection is soon replaced; the pauses before later ones
	// grow from leastPause to mostPause, for a server that starts is not there sooner for being asked more
	// often.
	leastPause, mostPause = 10 * time.Millisecond, time.Second
)

// A oncePush is a push that is stored once however often it is sent. Redis knows it by an idempotency key:
// the name of a pushKey and a number.
type oncePush struct {
	client *Client
	jobs   []lua.UniqueJob
	unique bool
	mark   string

	turn chan struct{} // holds one element while it is sent, which guards the fields below
	key  *pushKey      // not shared while it may have to be sent under the same number again
	// number, and since when (SinceBoot), of a push that is ambiguous: a request was not answered.
	number    int64
	ambiguous bool
	since     time.Duration
	stored    bool
	holders   []string // of a push of unique jobs that is stored: see lua.PushedUnique
	spent     error    // why it cannot be sent again
	// dropped gives the key back when the last receipt by which an ambiguous push could be repeated is garbage.
	dropped runtime.Cleanup
}

func (c *Client) number(s *slice) *oncePush {
	return &oncePush{client: c, jobs: s.jobs, unique: s.unique, mark: job.NewJID(), turn: make(chan struct{}, 1)}
}

// send sends the push until its outcome is known, or time is up. An error says what is known.
func (n *oncePush) send(ctx context.Context) (Status, error) {
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return StatusUnknown, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err()) // another goroutine is sending it
	}
	if n.stored {
		return "", nil
	}
	if err := n.client.pushKeys.enter(ctx); err != nil {
		return n.outcome(err)
	}
	defer n.client.pushKeys.leave()
	return n.outcome(n.persist(ctx))
}

// persist sends the push again while its outcome is unknown and that may change.
func (n *oncePush) persist(ctx context.Context) error {
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

// sleep reports whether it slept to the end.
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

// once sends the push, and stores what is known after that.
func (n *oncePush) once(ctx context.Context) error {
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
		n.key.number, n.stored = n.number, true
		n.client.refusals.log(time.Now(), n.jobs, n.holders)
	case word == lua.PushStale:
		return n.collided(ctx)
	case !driver.Certain(err) && !n.ambiguous:
		n.key.number, n.key.late = n.number, true
		n.ambiguous, n.since = true, sent
		n.dropped = runtime.AddCleanup(n, n.client.pushKeys.give, n.key)
	}
	return err
}

func (n *oncePush) ask(ctx context.Context) (string, error) {
	c := n.client
	if n.key == nil {
		n.key = c.pushKeys.take()
		n.number = n.key.number + 1
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	number := lua.IdempotencyKey{Slot: n.key.key, Number: n.number, Mark: n.mark, Remember: remember}
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

// collided handles a push whose key Redis knows for another push: a program that was copied while it ran (a
// snapshot of its machine) runs twice. Nothing of this push is stored, unless it was ambiguous; then only an
// operator can find out.
func (n *oncePush) collided(ctx context.Context) error {
	n.client.pushKeys.rename(n.key)
	n.key = nil
	if n.ambiguous {
		n.dropped.Stop()
		n.spent = fmt.Errorf("%w: a copy of this program has pushed under its number", ErrNotRepeatable)
		return n.spent
	}
	return n.once(ctx) // by the new name
}

// outcome returns what an error means, and gives the key back unless its number may be needed again.
func (n *oncePush) outcome(err error) (Status, error) {
	if !n.ambiguous || n.stored {
		n.dropped.Stop()
		if n.key != nil {
			n.client.pushKeys.give(n.key)
			n.key = nil
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
