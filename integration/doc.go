// Package integration tests the promises of the README with the built belay program, real processes, real
// signals and a real redis-server. Each test is named after a promise.
//
// Tests use only what users can use: they push jobs as producers do, start and kill workers, and read the
// ledger to which handlers append, the output of belay, and Redis. A promised bound (recovery within 15 s,
// the stop timeout) may decide a test; a measured speed is only logged. Handlers are the program in
// testdata/hand, which every worker runs by --exec.
//
// Tests cannot see each step of a job in Redis. So servers are audited (see audited): package oracle replays
// their append-only file afterwards and judges each step. A test that moves jobs itself declares this to the
// oracle.
//
// The environment variable BELAY_RACE=1 builds the belay program with the race detector.
package integration
