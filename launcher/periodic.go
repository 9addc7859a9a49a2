package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belayq/belay/lua"
	"github.com/belayq/belay/scheduler"
)

// registerEvery is how often a process registers its periodic jobs again. It is how long after the death of
// the newest process the definitions of the others are in force.
const registerEvery = 30 * time.Second

// Schedule adds a periodic job that the process registers while it runs. It panics after Run.
func (l *Launcher) Schedule(p *scheduler.Periodic) error {
	if l.started() {
		panic("belay: Schedule after Run: add periodic jobs before")
	}
	if slices.ContainsFunc(l.periodic, func(other *scheduler.Periodic) bool { return other.Name == p.Name }) {
		return errors.New("there is one of this name already")
	}
	l.periodic = append(l.periodic, p)
	return nil
}

// registerPeriodic registers the periodic jobs. It logs each at the start, and what changes.
func (l *Launcher) registerPeriodic(ctx context.Context) error {
	by := lua.Registrar{Identity: l.Identity(), StartedAt: l.bornAt}
	for some := range slices.Chunk(l.periodic, lua.MostDefinitions) {
		definitions := make([]lua.Definition, len(some))
		for i, p := range some {
			definitions[i] = p.Definition()
		}
		words, err := l.keys.Define(by, definitions).Do(ctx, l.lanes.announce)
		if err != nil {
			return fmt.Errorf("register periodic jobs: %w", err)
		}
		for i, word := range words[:min(len(words), len(some))] {
			p, kept := some[i], word == lua.DefineKept
			was, known := l.outranked[p.Name]
			switch {
			case kept && !was:
				l.cfg.Log.Info().Str("periodic", p.Name).Msg("periodic job of a newer process or of an operator is in force")
			case word == lua.DefineStored, !known && !kept:
				l.cfg.Log.Info().Str("periodic", p.Name).Str("schedule", p.Cron).Str("zone", cmp.Or(p.Zone, "UTC")).
					Time("next", p.Schedule().Next(l.clock.Now())).Msg("periodic job registered")
			}
			l.outranked[p.Name] = kept
		}
	}
	return nil
}
