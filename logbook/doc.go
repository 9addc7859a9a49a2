// Package logbook writes log lines without blocking the program that logs.
//
// A worker may log while it holds a mutex, or between two heartbeats. If it waited because the reader of its
// standard error has stopped, a disk is slow, or a slog.Handler sends each line over a network, other
// processes would declare it dead. So lines go into a [Book], which buffers a bounded number of lines and
// bytes. One goroutine, which exists only while lines wait, writes them. If the buffer is full, the oldest
// lines are dropped, counted, and the count is logged.
//
// zerolog's diode was rejected: its buffer has no bound in bytes, its goroutines live until Close, a writer
// that panics ends the program, its Waiter can miss the wake-up for a line, and on contention it logs to
// standard error, which is the stuck reader, by package log.
//
// The package is for Belay's own lines. Lines of handlers are never dropped, and a handler waits for its
// logger; [SlogTo] and [ZerologTo] offer handlers either library's interface to the other's logger.
//
// Belay logs with zerolog. For a slog.Handler, each line is parsed again from its JSON. That costs a few
// microseconds a line (BenchmarkSlog), in the goroutine that writes. An interface over both libraries would
// cost more in every place that logs.
package logbook
