// Package replica holds the promise of package dedup/wal against a real PostgreSQL: a primary and a streaming
// replica, which its tests start and end themselves.
//
// It is a module of its own, so that no SQL driver is among the dependencies of Belay.
package replica
