package logbook

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// ToWriter makes a Book whose lines, of this level and above, are written to w as they are: JSON with the time of each in
// milliseconds, one call of Write for each; what could control a terminal is escaped (see EscapeJSON). Errors of w are
// ignored.
func ToWriter(w io.Writer, least zerolog.Level) *Book {
	return newBook(
		func(l line) { _, _ = w.Write(EscapeJSON(l.text)) },
		func(log zerolog.Logger) zerolog.Logger { return log.Level(least).Hook(Timestamps{}) },
	)
}

// lateAfter is how long a line has to have waited for its reader for that to be said with it, where the reader has the
// line's time from its own clock.
const lateAfter = time.Second

// ToZerolog makes a Book whose lines are written again by log, with its level, fields and hooks, in the Book's goroutine.
// The time of a line is for log to say, and so is when it gets there; waited_ms says so if that took more than a second.
func ToZerolog(log zerolog.Logger) *Book {
	return newBook(func(l line) {
		event := log.WithLevel(l.level) //nolint:zerologlint // sent below, when its message is known
		message := eachField(l.text, func(name string, value []byte) { event.RawJSON(name, value) })
		if waited := time.Since(l.at); waited >= lateAfter {
			event.Dur("waited_ms", waited)
		}
		event.Msg(message)
	}, func(inner zerolog.Logger) zerolog.Logger { return inner.Level(log.GetLevel()) })
}

// ToSlog makes a Book whose lines become records of h, with the time at which they were logged, in the Book's goroutine.
// What h is not Enabled for costs nothing. Errors of h are nobody's.
func ToSlog(h slog.Handler) *Book {
	return newBook(
		func(l line) { handle(h, l) },
		func(log zerolog.Logger) zerolog.Logger { return log.Sample(enabled{h}) },
	)
}

// Timestamps is a hook that writes the time of each line, in UTC and milliseconds. (Zerolog's own way has seconds, unless a
// variable of the whole program says otherwise.)
type Timestamps struct{}

// Run implements zerolog.Hook.
func (Timestamps) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// enabled asks a slog.Handler which lines it wants. A sampler and no level, because that may change while the program runs.
type enabled struct{ slog.Handler }

// Sample implements zerolog.Sampler.
func (e enabled) Sample(level zerolog.Level) bool {
	return e.Enabled(context.Background(), slogLevel(level))
}
