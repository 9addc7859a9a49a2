package main

import (
	"slices"

	"github.com/belayq/belay/bench/report"
	"github.com/belayq/belay/bench/subject"
)

// timedMeasures are those whose figures are times: how long until something happens.
func timedMeasures() []measurement {
	return []measurement{latencyMeasure, scheduleMeasure, recoveryMeasure, fleetMeasure, rttMeasure}
}

// timedSubject is what Belay's subject does for them, by the task's measure.
func timedSubject() map[string]subject.Func {
	all := timed()
	all["pingpong"], all["fleet"] = pushing(pingpong), fleetSubject
	return all
}

// A variant is a contender with settings of one kind.
type variant struct {
	who  contender
	best bool
	name string // the case of its rows
}

// variants are Belay as it comes, and the peers that can do the measure. Those that look for jobs from time
// to time, as the named ones do here, are asked twice: as they come, which is what their users meet, and with
// the settings under which jobs run soonest, which is what they can do.
func (b *bench) variants(r *report.Result, pollers ...string) []variant {
	var all []variant
	for _, who := range b.belays() {
		all = append(all, variant{who: who, name: asItComes})
	}
	for _, who := range b.able(r) {
		all = append(all, variant{who: who, name: asItComes})
		if slices.Contains(pollers, who.name) {
			all = append(all, variant{who: who, best: true, name: "its soonest"})
		}
	}
	return all
}

const asItComes = "as it comes"
