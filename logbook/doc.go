// Package logbook brings log lines to whoever reads them, without anybody having to wait for that reader.
//
// A worker that writes a line while it holds a lock, or between two beats, must not find out that the reader of its standard
// error has stopped, that a disk is slow, or that a slog.Handler sends each line over a network: other processes would
// take it for dead. So lines go into a [Book], which has room for a bounded number of them; one goroutine, which exists
// only while there are lines, carries them out. What there is no room for is dropped, the oldest lines first, counted,
// and said in the log itself.
//
// It is for Belay's own lines. Those of handlers are the user's: nothing drops them, and a handler waits for its logger;
// [SlogTo] and [ZerologTo] lend it the one library's face on the other.
//
// All of Belay writes zerolog's lines. Where these are to become somebody else's records, they are read again, out of their
// JSON: that costs a few microseconds a line (BenchmarkSlog), in the goroutine for which nobody waits. The other way, an
// interface of our own over both, would have a cost in every place that logs, and there are many of these and few lines.
package logbook
