package scheduler

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/lua"
)

// killLarge moves due entries that are too large to be promoted to the dead set, the last one first, so that the others are still where
// they were met. stuck is how many could not be moved, for a reason that waiting does not cure.
func (p *Poller) killLarge(ctx context.Context, set string, large []lua.Large) (stuck int, wrong error) {
	for _, one := range slices.Backward(large) {
		large := lua.NewTooLarge(one, set, "", p.cfg.Largest, p.cfg.Clock.Now(), p.cfg.Unit)
		large.Sorted = true
		names, lock := dedup.ReadEnds(one.Head, one.Tail)
		if !lock.None() {
			large.Lock = &lua.Lock{Digest: lock.Digest, Owner: lua.OwnerOf(lock.JID, names.Class()), Hold: lock.Lifetime(0)}
		}
		dead, err := p.cfg.Keys.KillLarge(large).Do(ctx, &p.link)
		if dead || err != nil {
			p.logTooLarge(one, names, err)
		}
		switch {
		case driver.Outage(err):
			return stuck, fmt.Errorf("move a job that is too large to the dead set: %w", err)
		case err != nil:
			stuck, wrong = stuck+1, fmt.Errorf("move a job that is too large to the dead set: %w", err)
		}
	}
	return stuck, wrong
}

// logTooLarge tells operators of a job that was moved to the dead set for its size. After an error it may have been: no later look finds
// one that has gone, so this line is the only one of it.
func (p *Poller) logTooLarge(large lua.Large, names *job.Job, err error) {
	event := p.cfg.Log.Error().Err(err).Int("bytes", large.Bytes).Int("limit", p.cfg.Largest)
	if names != nil {
		event.Str("jid", names.JID()).Str("class", names.Class())
	}
	if err != nil {
		event.Msg("moving a job to the dead set: the payload is too large; the answer did not come")
		return
	}
	event.Msg("moved to the dead set: the payload is too large")
}
