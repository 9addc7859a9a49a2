package main

import "github.com/belayq/belay/bench/subject"

// timedMeasures are those whose figures are times: how long until something happens.
func timedMeasures() []measure { return nil }

// timedSubject is what Belay's subject does for them, by the task's measure.
func timedSubject() map[string]subject.Func { return nil }
