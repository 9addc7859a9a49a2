// Package chaosplan draws, from one number, everything that is to happen in a chaos run: which jobs are pushed,
// when and by whom, what they do, and what is done meanwhile to the workers, to the way between them and Redis,
// and to Redis itself. It exists so that a run which found something can be run again: the same seed and
// settings are the same plan.
//
// What becomes of a plan differs from run to run, because processes race; that is what the run is for.
//
// It must never look at a clock or a process, or at a file but the one that Save writes.
package chaosplan
