// Package talk is the protocol between a subject and the bench: tasks in, events out, one JSON object a line.
//
// It knows nothing of queues or of clocks, and it never writes to standard output anything that is not an
// Event.
package talk
