// Package retry reports whether and when a failed job runs again: a pure function from a job, an error and the
// time to an outcome.
//
// It exists so that everything Sidekiq's users know about failures (counts, delays, limits, what is kept) is
// in one table that can be read and tested without a server: [Decide] is that table. The few words a handler
// may say besides a plain error ([Discard], [Kill], [In], [Snooze]) live here too, because they mean nothing
// else.
//
// It must never do I/O, read a clock or draw a random number of its own: all three are arguments. And it must
// never panic over a handler's error, however broken that error's methods are: the job it belongs to would be
// lost.
package retry
