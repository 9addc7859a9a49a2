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
	space *space
	load
	mark string

	turn  chan struct{} // a lock on the fields below, and on load: it has one element while the push is sent
	scope *scope        // this push's alone while it may have to be sent under the same number again
	// A push is ambiguous if a request got no reply; since is when that request was sent (SinceBoot).
	number    int64
	ambiguous bool
	since     time.Duration
	stored    bool
	answer    answer // once it is stored
	spent     error  // why it cannot be sent again
	// dropped gives the scope back when the garbage collector has taken the last receipt of an ambiguous push.
	dropped runtime.Cleanup
}

func (s *space) newOncePush(l load) *oncePush {
	return &oncePush{space: s, load: l, mark: job.NewJID(), turn: make(chan struct{}, 1)}
}

// send sends the push until its outcome is known or its time is over. The error is the caller's: see
// outcomeOf.
func (p *oncePush) send(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	default: // another goroutine is sending it
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		}
	}
	defer func() { <-p.turn }()
	if p.stored {
		return nil
	}
	if err := p.space.scopes.enter(ctx); err != nil {
		return p.outcome(err)
	}
	defer p.space.scopes.leave()
	return p.outcome(p.persist(ctx))
}

// persist sends the push, and sends it again while its outcome is unknown and a reply may still come in time.
func (p *oncePush) persist(ctx context.Context) error {
	begun := time.Now()
	backoff := link.Backoff{First: minPause, Max: maxPause}
	for wait := time.Duration(0); ; wait = backoff.Next() {
		err := p.once(ctx)
		if err == nil || !p.ambiguous || p.spent != nil || !driver.Outage(err) {
			return err
		}
		if !p.space.cfg.mayRepeat(ctx, begun, wait) {
			return err
		}
	}
}

// mayRepeat reports whether a call that began at an instant may be made again, and first waits for a pause: not
// once Config.RepeatFor would be over, or ctx has ended.
func (cfg *Config) mayRepeat(ctx context.Context, begun time.Time, pause time.Duration) bool {
	if time.Since(begun)+pause > cfg.RepeatFor {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// once sends one request and records the outcome.
func (p *oncePush) once(ctx context.Context) error {
	sent := lua.SinceBoot()
	if p.ambiguous && sent-p.since > RepeatWindow {
		p.spent = fmt.Errorf("%w: it was first sent more than %v ago", ErrNotRepeatable, RepeatWindow)
	}
	if p.spent != nil {
		return p.spent
	}
	if p.scope == nil {
		p.scope = p.space.scopes.take()
		p.number = p.scope.last + 1
	}
	key := lua.IdempotencyKey{Scope: p.scope.name, Number: p.number, Mark: p.mark, Remember: remember}
	a, err := p.space.store(ctx, &key, p.load)
	switch {
	case err == nil:
		p.scope.last, p.stored, p.answer = p.number, true, a
	case errors.Is(err, ErrStale):
		return p.collided(ctx)
	case !driver.Certain(err) && !p.ambiguous:
		p.scope.last, p.scope.late = p.number, true
		p.ambiguous, p.since = true, sent
		p.dropped = runtime.AddCleanup(p, p.space.scopes.give, p.scope)
	}
	return err
}

// collided handles a push whose number Redis has seen with another push in its scope. This happens when a
// program was copied while it ran (a snapshot of its machine) and both copies run. Nothing of this push is
// stored; if it was ambiguous, only an operator can find out.
func (p *oncePush) collided(ctx context.Context) error {
	p.space.scopes.rename(p.scope)
	p.scope = nil
	if p.ambiguous {
		p.dropped.Stop()
		p.spent = fmt.Errorf("%w: a copy of this program has pushed under its number", ErrNotRepeatable)
		return p.spent
	}
	return p.once(ctx) // in a new scope
}

// outcome returns the caller's error. It gives the scope back, unless its number may be needed again.
func (p *oncePush) outcome(err error) error {
	if !p.ambiguous || p.stored {
		p.dropped.Stop()
		if p.scope != nil {
			p.space.scopes.give(p.scope)
			p.scope = nil
		}
	}
	switch {
	case err == nil:
		p.jobs = nil
		return nil
	case p.ambiguous:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return outcomeOf(err)
}
