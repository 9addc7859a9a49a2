// Package needs counts the lines that a program needs for a thing with Belay, with asynq and with River. The
// folders beside it have one file for each system; a comment "// need: NAME" begins the code for that need, and
// what stands above the first one every program has. A system has no code for a need if it cannot do that, or
// only by a module or a program beside it.
//
// Belay's code is, but for some values, that of examples/needs, limits, sequence and fanout, which have tests,
// without what only tests have. Limits, batches and sequences of the other two are in River Pro, and in a
// module beside asynq (a semaphore).
package needs
