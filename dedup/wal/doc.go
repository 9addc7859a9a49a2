// Package wal asks PostgreSQL how far it has come: where a primary stands, and whether a replica has got there.
//
// It exists for jobs that read from a replica what was written before they were pushed. A push is stamped with the position of
// the primary ([Current]); the handler waits until the replica has replayed it ([Wait]), for a bounded time, and is told to use the
// primary when it has not. It stands apart from package dedup because that asks no server; and it uses database/sql alone, so that
// it brings no driver into anybody's program.
//
// It must never wait without a bound, and never say that a replica has a position that it has not replayed.
package wal
