// Package link adapts calls to the link to Redis: to its speed, and to outages.
//
// A [Link] gives each call a deadline that fits what the call carries, and a [Pace] decides how much the next
// call asks for: less after a failure, more while replies come quickly. So a slow link makes jobs slow, but
// never stuck. While Redis is away, a [Backoff] spreads the attempts, and a [Reporter] logs one line when the
// outage begins and one when it ends.
//
// The package knows bytes, deadlines and errors, but no keys and no jobs. It must never decide what happens to
// a job whose call failed, and it must not send a failed call again: only the caller knows whether that is
// safe.
package link
