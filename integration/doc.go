// Package integration holds the promises of the README against what users have: the built belay program, real
// processes, real signals and a real redis-server. Each test is named after a promise.
//
// Nothing is reached into: tests push what producers push, start and kill workers, and read what the handlers
// appended to a ledger, what belay prints, and what lies in Redis. A promised bound (recovery within 15 s, the
// stop timeout) may decide a test; a measured speed is only logged. Handlers are the program in testdata/hand,
// which every worker runs by
// --exec.
//
// What no test could see from outside, every step that Redis took with every job, is judged afterwards: servers
// are audited (see audited) by package oracle, which replays what they wrote down. A test that moves jobs by
// its own hand tells the oracle what it does.
//
// The environment variable BELAY_RACE=1 builds the belay program with the race detector.
package integration
