// Package history writes and reads the events that the processes of a chaos run record.
//
// Each process has a file of its own, one JSON object a line, each line written by a single append, so the
// lines that a handler wrote before its process was killed are complete. All processes are on one machine and
// read one clock, so the events of all files have one order.
//
// It must never judge the events; package verdict does.
package history
