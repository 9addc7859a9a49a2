// Package talk is how a subject hears from the bench what to do and tells it what happened, a JSON object a line.
//
// It knows nothing of queues or of clocks, and it never writes to standard output anything that is not an Event.
package talk
