// Package faultproxy is a TCP proxy that parses the Redis protocol, so that it can lose, delay, hold or
// forge one chosen reply, and kill or freeze a process at that moment. A job system must survive the loss
// of the reply to a certain command and a crash at a certain command; a general proxy cannot cause them.
//
// Requests and replies are whole frames, RESP2 or RESP3. The nth reply belongs to the nth request of a
// connection, except for RESP3's pushes. (So the proxy does not support subscriptions in RESP2.) Without
// rules everything passes unchanged.
package faultproxy
