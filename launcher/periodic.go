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

// registerSoon is how soon it registers them again if not all were registered.
const registerSoon = 100 * time.Millisecond

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

// registerPeriodic registers the periodic jobs, as many at once as the link carries well. It logs each at the
// start, and what changes.
func (s *shard) registerPeriodic(ctx context.Context) (next time.Duration, errs error) {
	if err := s.registers.Check(ctx); err != nil {
		return 0, err
	}
	by := lua.Registrar{Identity: s.identity(), StartedAt: s.bornAt}
	for rest := s.launcher.periodic; len(rest) > 0; {
		var definitions []lua.Definition
		for bytes, room := 0, s.registers.Page(); len(definitions) < min(len(rest), lua.MaxDefinitions) && bytes < room; {
			definition := rest[len(definitions)].Definition()
			definitions, bytes = append(definitions, definition), bytes+len(definition.Text)
		}
		words, err := scheduler.Define(ctx, s.registers, scheduler.Config{Keys: s.keys, Log: s.log, Unit: s.cfg.Retry.Unit}, by, definitions)
		for i, word := range words {
			if word == lua.DefineDue {
				next = registerSoon // ticks of the old schedule are due still
				continue
			}
			s.logRegistered(rest[i], word)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("register periodic jobs: %w", err))
			next = registerSoon
		}
		if words == nil {
			break
		}
		rest = rest[len(definitions):]
	}
	return next, s.registers.Excused(errs)
}

func (s *shard) logRegistered(p *scheduler.Periodic, word string) {
	kept := word == lua.DefineKept
	was, known := s.outranked[p.Name]
	switch {
	case kept && !was:
		s.log.Info("periodic job of a newer process or of an operator is in force", "periodic", p.Name)
	case word == lua.DefineStored, !known && !kept:
		s.log.Info("periodic job registered",
			"periodic", p.Name, "schedule", p.Cron, "zone", cmp.Or(p.Zone, "UTC"), "next", p.Schedule().Next(s.clock.Now()))
	}
	s.outranked[p.Name] = kept
}
