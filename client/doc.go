// Package client pushes jobs: it checks them, writes their bytes, and stores them in their queues.
//
// It exists so that a caller learns what became of each job, and no more than is known: a job is queued, was
// refused, is certainly not in Redis, or its outcome is unknown (ErrUnknown, when Redis' answer was lost). This
// package never sends a push twice, unless it is a PushOnce: only the caller knows what a second run would do.
// A PushOnce has an idempotency key, by which Redis stores it once: push_once.go has when it is sent again, and
// idempotency.go how little Redis has to remember for that.
//
// It must never change a payload that exists, wait for a job to run, or decide what happens when one fails.
package client
