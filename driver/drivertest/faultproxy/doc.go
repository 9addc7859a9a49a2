// Package faultproxy is a TCP proxy that understands the Redis protocol well enough to lose, delay, hold or
// forge one chosen answer, and to kill or freeze a process just then. Networks lose bytes; what a job system
// must survive is the loss of the answer to a certain command, and a death at a certain command, and no
// general proxy can be asked for that.
//
// Requests and replies are whole frames, RESP2 or RESP3, and each reply is known by the request it answers:
// the nth reply belongs to the nth request of a connection, RESP3's pushes apart. (So it is of no use for
// subscriptions in RESP2, whose answers are not counted like that.) Without rules everything passes
// unchanged.
package faultproxy
