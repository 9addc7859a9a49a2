package main

import "github.com/belayq/belay/bench/subject"

// timedMeasures are those whose figures are times: how long until something happens.
func timedMeasures() []measure {
	return []measure{latencyMeasure, scheduleMeasure, recoveryMeasure, fleetMeasure, rttMeasure}
}

// timedSubject is what Belay's subject does for them, by the task's measure.
func timedSubject() map[string]subject.Func {
	return map[string]subject.Func{
		"latency": latencySubject, "pingpong": pingpongSubject, "schedule": scheduleSubject, "burst": burstSubject,
		"victim": victimSubject, "survivor": survivorSubject, "fleet": fleetSubject,
	}
}
