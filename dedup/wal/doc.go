// Package wal reads positions in PostgreSQL's write-ahead log: the current one of a primary, and whether a
// replica has replayed one.
//
// It exists for jobs that read, from a replica, data that was written before they were pushed. The push
// stores the position of the primary ([Current]). The handler waits for a bounded time until the replica has
// replayed it ([Wait]), and otherwise uses the primary. It is not part of package dedup, which calls no
// server. It imports database/sql and no driver.
//
// It must never wait without a bound, and never report a position as replayed that is not.
package wal
