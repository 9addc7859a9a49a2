// Package postgres holds the promises of packages dedup/wal and contrib/outbox against a real PostgreSQL, whose
// servers its tests start and end themselves.
//
// It is a module of its own, so that no SQL driver is among the dependencies of Belay.
package postgres
