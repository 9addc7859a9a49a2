// Package chaosplan draws everything that happens in a chaos run from one number: which jobs are pushed, when
// and by which process, what they do, and which faults the workers, their connections and Redis have
// meanwhile. It exists so that a run that found a bug can be repeated: the same seed and settings give the
// same plan.
//
// What becomes of a plan differs from run to run, because processes race; that is what the run is for.
//
// It must never look at a clock or a process, or at a file but the one that Save writes.
package chaosplan
