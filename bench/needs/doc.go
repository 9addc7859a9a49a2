// Package needs counts the lines that a program needs for a thing with Belay, with asynq and with River. The
// folders beside it have one file for each system; a comment "// need: NAME" begins the code for that need, and
// what stands above the first one every program has. A system has no code for a need if it cannot do that, or
// only by a module or a program beside it.
//
// Belay's code is that of examples/needs, which has tests, without what only tests have.
package needs
