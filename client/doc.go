// Package client pushes jobs: it checks them, writes their bytes, and stores them in their queues. This
// package is not public API: only what package belay exports from it carries a compatibility promise.
//
// It exists so that a caller knows the exact outcome of each push: the job is queued, was refused, is
// certainly not in Redis, or its outcome is unknown (ErrUnknown: the reply of Redis was lost). This package
// never sends a push twice, because only the caller knows the effect of a second run. The exception is a
// PushOnce push: it has an idempotency key, by which Redis stores it once. push_once.go decides when it is
// sent again, and scope.go keeps what Redis remembers of such pushes small.
//
// prepared.go pushes in two steps, for jobs that wait in a database in between: Prepare checks a job and
// writes its bytes, and PushPrepared stores it under an idempotency key that the caller keeps.
//
// The way of a job: push.go (middleware, defaults), payload.go (checks, bytes), coalesce.go or bulk.go (which
// jobs go together), slice.go (the call that stores them, and their receipts).
//
// It must never change a payload that exists, wait for a job to run, or decide what happens when one fails.
package client
