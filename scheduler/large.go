package scheduler

import (
	"context"
	"fmt"
	"slices"

	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/lua"
)

// killLarge moves due entries that are too large to be promoted to the dead set, the last one first, so that
// the others are still where they were met. stuck is how many could not be moved, for a reason that waiting
// does not cure.
func (p *Poller) killLarge(ctx context.Context, set string, entries []lua.Large) (stuck int, wrong error) {
	for _, one := range slices.Backward(entries) {
		large := dedup.TooLarge(one, set, "", p.cfg.Largest, p.cfg.Clock.Now(), p.cfg.Unit)
		large.Sorted = true
		dead, err := p.cfg.Keys.KillLarge(large).Do(ctx, &p.link)
		if dead || err != nil {
			large.Log(p.cfg.Log, p.cfg.Largest, err)
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
