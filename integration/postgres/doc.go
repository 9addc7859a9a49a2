// Package postgres tests the promises of packages dedup/wal and contrib/outbox with real PostgreSQL servers,
// which the tests start and end.
//
// It is a module of its own, so that no SQL driver is among the dependencies of Belay.
package postgres
