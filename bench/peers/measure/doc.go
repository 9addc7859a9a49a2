// Package measure does the bench's measures with a job system written in Go.
//
// Every such subject counts, waits and reads the clock here, so that a difference between two figures is
// never a difference between two ways to measure. It is independent of any job system; each subject
// configures its own.
package measure
