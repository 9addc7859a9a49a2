// Package dedup decides which jobs count as duplicates, and until when. This package is not public API: only
// what package belay exports from it carries a compatibility promise.
//
// It exists so that the rules of unique jobs can be read and tested without a server. A [Rule] configures a
// class. A [Digest] identifies jobs that are duplicates of each other. A [Lock] is the part of a unique job's
// payload that tells each script what to do with the lock. The digest is computed once, at the push, and only
// read after that: a worker of another version releases the lock that was taken, not one that it would have
// computed itself. A lock that stays until its TTL has passed ([UntilExpired], and the lock of a key,
// [KeyLock]) is not in the payload of a stored job, because no script that moves the job may change it.
//
// Uniqueness decides which pushes are accepted. A job that has started, waits for a retry, or was recovered
// from a dead process needs no lock to run, so no job is ever blocked by its own lock.
//
// It must never do I/O, read a clock or draw a random id. It must never panic because of a payload, and never
// give one digest to two values that differ in more than spelling: a job that is refused by mistake is lost.
package dedup
