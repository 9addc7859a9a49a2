package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/belayq/belay/inspect"
)

// deadLimits are the flags of commands that add to the dead set.
type deadLimits struct {
	limit int
	keep  time.Duration
}

// deadLimitsHelp says what the flags are for.
const deadLimitsHelp = `

A full dead set loses its oldest jobs to new ones. If the workers have a DeadLimit or DeadFor of their own, pass the same as
--dead-limit and --dead-for.`

func (l *deadLimits) register(set *pflag.FlagSet) {
	set.IntVar(&l.limit, "dead-limit", inspect.DefaultDeadLimit, "the DeadLimit of the workers: this many `JOBS` may stay in the dead set")
	set.DurationVar(&l.keep, "dead-for", inspect.DefaultDeadFor, "the DeadFor of the workers: a job may stay in the dead set for this time")
}

func (l *deadLimits) check() error {
	if l.limit < 1 || l.keep < time.Second {
		return usage("--dead-limit %d and --dead-for %v: they must be at least 1 and 1s", l.limit, l.keep)
	}
	return nil
}

// of returns the Inspector with these limits.
func (l *deadLimits) of(i *inspect.Inspector) *inspect.Inspector {
	return i.WithDeadLimits(l.limit, l.keep)
}
