// Package logbook writes log lines without blocking the program that logs. This package is not public API:
// only what package belay exports from it carries a compatibility promise.
//
// A worker may log while it holds a mutex, or between two heartbeats. If it waited because the reader of its
// standard error has stopped, a disk is slow, or a slog.Handler sends each line over a network, other
// processes would declare it dead. So records go into a [Buffer], which holds a bounded number of records and
// bytes. One goroutine, which exists only while records wait, passes them on. If the buffer is full, the
// oldest records are dropped, counted, and the count is logged.
//
// zerolog's diode was rejected: its buffer has no bound in bytes, its goroutines live until Close, a writer
// that panics ends the program, its Waiter can miss the wake-up for a line, and on contention it logs to
// standard error, which is the stuck reader, by package log.
//
// Belay logs by log/slog. [JSON] and [Zerolog] are handlers that write records by zerolog.
package logbook
