// Package retry decides whether and when a failed job runs again: a pure function from a job, an error and
// the time to an outcome.
//
// It exists so that everything Sidekiq's users know about failures (counts, delays, limits, what is kept) is
// in one table that can be read and tested without a server: [Decide] is that table. The errors with which a
// handler chooses another outcome ([Discard], [Kill], [In], [Snooze]) are here too. formula.go has the
// delays; [CrashPolicy] has the limits for crashes.
//
// It must never do I/O, read a clock or draw a random number: the time and the random source are arguments.
// It must never panic because of a handler's error, even if that error's methods panic: the job would be
// lost.
package retry
