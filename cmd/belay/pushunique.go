package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/belayq/belay/dedup"
)

// uniqueFlags say which pushed jobs are refused as duplicates.
type uniqueFlags struct {
	set       *pflag.FlagSet
	until     string
	ttl       time.Duration
	again     bool
	scheduled bool
}

func (f *uniqueFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.until, "unique", "", "refuse the job while another job holds their lock: `UNTIL` is until_executing (the default without a value) or until_executed")
	set.Lookup("unique").NoOptDefVal = string(dedup.UntilExecuting)
	set.DurationVar(&f.ttl, "unique-ttl", dedup.DefaultTTL, "how long the lock stands at most, once the job may run, if nobody renews it")
	set.BoolVar(&f.again, "reschedule-once", false, "with until_executed: run it once more if another was refused after its start")
	set.BoolVar(&f.scheduled, "including-scheduled", false, "take the lock also with --in and --at, which else leave it alone")
}

func (f *uniqueFlags) check() error {
	rule := f.rule()
	if rule == nil {
		for _, name := range []string{"unique-ttl", "reschedule-once", "including-scheduled"} {
			if f.set.Changed(name) {
				return usage("--%s requires --unique", name)
			}
		}
		return nil
	}
	if f.ttl == 0 { // which the rule would take for "not said"
		return usage("--unique-ttl: %w", dedup.CheckTTL(f.ttl))
	}
	if err := rule.Check(); err != nil {
		return usage("--unique: %w", err)
	}
	return nil
}

// rule is what the flags say; nil for nothing.
func (f *uniqueFlags) rule() *dedup.Rule {
	if !f.set.Changed("unique") {
		return nil
	}
	return &dedup.Rule{Until: dedup.Until(f.until), TTL: f.ttl, RescheduleOnce: f.again, IncludingScheduled: f.scheduled}
}
