// Package history is what the processes of a chaos run write down as they live, and what is read of it
// afterwards.
//
// Each process has a file of its own, one JSON object a line, each line written by a single append: what a
// handler has written before its process was killed is there, and nothing else of it is needed. All processes
// are on one machine and read one clock, so the events of all files have one order.
//
// It must never judge: what the events mean is the verdict's to say.
package history
