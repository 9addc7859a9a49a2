package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/link"
	"github.com/belayq/belay/lua"
)

const (
	// DefaultRepeatFor is how long a client repeats a push by itself before the caller gets the error.
	// Failovers of a second or two and most restarts are over by then.
	DefaultRepeatFor = 10 * time.Second
	// The first repetition follows at once, because a cut connection is replaced quickly. The pauses before
	// later ones grow from minPause to maxPause: asking more often makes no server start faster. Both are below
	// the bounds that are usual in package link, because a caller waits for the push, and for only so long
	// (Config.RepeatFor).
	minPause, maxPause = 10 * time.Millisecond, time.Second
)

// A oncePush is a push that is stored once, however often it is sent. Redis recognises it by its idempotency
// key: a scope, a number and a mark.
type oncePush struct {
	client *Client
	load
	mark string

	turn  chan struct{} // a lock on the fields below, and on load: it has one element while the push is sent
	scope *scope        // this push's alone while it may have to be sent under the same number again
	// A push is ambiguous if a request got no reply; since is when that request was sent (SinceBoot).
	number    int64
	ambiguous bool
	since     time.Duration
	stored    bool
	holders   []string // who holds the locks of refused duplicates: see lua.PushedUnique
	spent     error    // why it cannot be sent again
	// dropped gives the scope back when the garbage collector has taken the last receipt of an ambiguous push.
	dropped runtime.Cleanup
}

func (c *Client) newOncePush(l load) *oncePush {
	return &oncePush{client: c, load: l, mark: job.NewJID(), turn: make(chan struct{}, 1)}
}

// send sends the push until its outcome is known or its time is over. The error is the caller's: see
// outcomeOf.
func (n *oncePush) send(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
	default: // another goroutine is sending it
		select {
		case n.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		}
	}
	defer func() { <-n.turn }()
	if n.stored {
		return nil
	}
	if err := n.client.scopes.enter(ctx); err != nil {
		return n.outcome(err)
	}
	defer n.client.scopes.leave()
	return n.outcome(n.persist(ctx))
}

// persist repeats the push while its outcome is unknown and another request may settle it.
func (n *oncePush) persist(ctx context.Context) error {
	begun := time.Now()
	backoff := link.Backoff{First: minPause, Max: maxPause}
	for wait := time.Duration(0); ; wait = backoff.Next() {
		err := n.once(ctx)
		if err == nil || !n.ambiguous || n.spent != nil || !driver.Outage(err) {
			return err
		}
		if time.Since(begun)+wait > n.client.cfg.RepeatFor {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// once sends one request and records the outcome.
func (n *oncePush) once(ctx context.Context) error {
	sent := lua.SinceBoot()
	if n.ambiguous && sent-n.since > RepeatWindow {
		n.spent = fmt.Errorf("%w: it was first sent more than %v ago", ErrNotRepeatable, RepeatWindow)
	}
	if n.spent != nil {
		return n.spent
	}
	if n.scope == nil {
		n.scope = n.client.scopes.take()
		n.number = n.scope.last + 1
	}
	key := lua.IdempotencyKey{Scope: n.scope.name, Number: n.number, Mark: n.mark, Remember: remember}
	holders, err := n.client.store(ctx, &key, n.load)
	switch {
	case err == nil:
		n.scope.last, n.stored, n.holders = n.number, true, holders
	case errors.Is(err, ErrStale):
		return n.collided(ctx)
	case !driver.Certain(err) && !n.ambiguous:
		n.scope.last, n.scope.late = n.number, true
		n.ambiguous, n.since = true, sent
		n.dropped = runtime.AddCleanup(n, n.client.scopes.give, n.scope)
	}
	return err
}

// collided handles a push whose number Redis has seen with another push in its scope. This happens when a
// program was copied while it ran (a snapshot of its machine) and both copies run. Nothing of this push is
// stored; if it was ambiguous, only an operator can find out.
func (n *oncePush) collided(ctx context.Context) error {
	n.client.scopes.rename(n.scope)
	n.scope = nil
	if n.ambiguous {
		n.dropped.Stop()
		n.spent = fmt.Errorf("%w: a copy of this program has pushed under its number", ErrNotRepeatable)
		return n.spent
	}
	return n.once(ctx) // in a new scope
}

// outcome returns the caller's error. It gives the scope back, unless its number may be needed again.
func (n *oncePush) outcome(err error) error {
	if !n.ambiguous || n.stored {
		n.dropped.Stop()
		if n.scope != nil {
			n.client.scopes.give(n.scope)
			n.scope = nil
		}
	}
	switch {
	case err == nil:
		n.jobs = nil
		return nil
	case n.ambiguous:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return outcomeOf(err)
}
