// Package dedup says which jobs count as the same, and until when.
//
// It exists so that the rules of unique jobs can be read and tested without a server: a [Rule] is what a
// class says, a [Digest] is what two jobs have in common that are the same, and a [Lock] is what a unique job
// carries in its payload and what every script that moves the job is to do about it. The digest is computed
// once, at the push, and from then on only read: a worker of another version releases what was locked, not
// what it would have locked itself.
//
// What is unique is the accepted push. A job that has started, or waits for a retry, or comes back from a
// dead process, is never asked again, so that no job is ever blocked by its own lock.
//
// It must never do I/O, read a clock or draw a random id of its own. It must never panic over a payload, and
// never take two values for the same that a handler could tell apart by more than their spelling: a job
// refused by mistake is lost.
package dedup
