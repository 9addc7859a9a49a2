// Package client puts jobs in: it checks them, writes their bytes, and stores them in their queues.
//
// It exists so that whoever enqueues learns what became of each job, and is never told more than is known: a
// job is queued, or was refused, or is certainly not there, or nobody can say (ErrUnknown, when Redis' answer
// was lost). What is not PushOnce is never sent twice by this package; whether to push again after ErrUnknown
// is for the caller to judge, who knows what a second run would do. A PushOnce push has a number, by which
// Redis stores it once: numbered.go tells when it is sent again, and slots.go how little Redis has to
// remember for that.
//
// It must never change a payload that exists, wait for a job to run, or decide what happens when one fails.
package client
