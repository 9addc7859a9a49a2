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
	set.StringVar(&f.until, "unique", "",
		"refuse the job while another job holds the lock; `UNTIL` is until_executing (the default without a value) or until_executed")
	set.Lookup("unique").NoOptDefVal = string(dedup.UntilExecuting)
	set.DurationVar(&f.ttl, "unique-ttl", dedup.DefaultTTL,
		"expiry of the lock, from when the job may run, unless it is released or renewed")
	set.BoolVar(&f.again, "reschedule-once", false, "with until_executed: run the job once more if a duplicate was refused after its start")
	set.BoolVar(&f.scheduled, "including-scheduled", false, "take the lock with --in and --at too")
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
	if f.ttl == 0 { // in a rule it means the default
		return usage("--unique-ttl: %w", dedup.CheckTTL(f.ttl))
	}
	if err := rule.Check(); err != nil {
		return usage("--unique: %w", err)
	}
	return nil
}

// rule returns the rule of the flags, or nil.
func (f *uniqueFlags) rule() *dedup.Rule {
	if !f.set.Changed("unique") {
		return nil
	}
	return &dedup.Rule{Until: dedup.Until(f.until), TTL: f.ttl, RescheduleOnce: f.again, IncludingScheduled: f.scheduled}
}
