package logbook

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// ToWriter returns a Book that writes its lines, of this level and above, to w: JSON with times in
// milliseconds, one call of Write for each line, escaped by EscapeJSON. It ignores errors of w.
func ToWriter(w io.Writer, least zerolog.Level) *Book {
	return newBook(
		func(l line) { _, _ = w.Write(EscapeJSON(l.text)) },
		func(log zerolog.Logger) zerolog.Logger { return log.Level(least).Hook(Timestamps{}) },
	)
}

// lateAfter is how long a line must have waited to get the field waited_ms, if its time is that of the
// writing.
const lateAfter = time.Second

// ToZerolog returns a Book that writes its lines by log, with log's level, fields and hooks, in the Book's
// goroutine. log adds the time, which is that of the writing; waited_ms is added to lines that waited for
// more than a second.
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

// ToSlog returns a Book that passes its lines to h as records, with the time of logging, in the Book's
// goroutine. Lines that h is not Enabled for cost nothing. It ignores errors of h.
func ToSlog(h slog.Handler) *Book {
	return newBook(
		func(l line) { handle(h, l) },
		func(log zerolog.Logger) zerolog.Logger { return log.Sample(enabled{h}) },
	)
}

// Timestamps is a hook that adds the time to each line, in UTC and milliseconds. zerolog's own timestamps
// have seconds unless a global variable is set.
type Timestamps struct{}

// Run implements zerolog.Hook.
func (Timestamps) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// enabled asks a slog.Handler for its level each time, because the level may change while the program runs.
type enabled struct{ slog.Handler }

// Sample implements zerolog.Sampler.
func (e enabled) Sample(level zerolog.Level) bool {
	return e.Enabled(context.Background(), slogLevel(level))
}

// Slog returns a logger that writes into the Book.
func (b *Book) Slog() *slog.Logger {
	return slog.New(fielder{to: zerolog.NewSlogHandler(b.log), plain: &b.log, book: b})
}

// Behind returns a Book for a program's logger, a logger that writes into the Book, and the zerolog.Logger
// that the handler adapts, nil for another handler. The Book is the handler's own if Book.Slog made it. A
// zerolog.Logger is used directly: its lines need no conversion to records and back.
func Behind(h slog.Handler) (book *Book, log zerolog.Logger, plain *zerolog.Logger) {
	f, adapted := h.(fielder)
	switch {
	case !adapted || f.plain == nil:
		book = ToSlog(h)
	case f.book == nil:
		book, plain = ToZerolog(*f.plain), f.plain
	default:
		return f.book, *f.plain, f.plain
	}
	return book, book.Logger(), plain
}

// Leveled returns a logger that drops lines below level. The level replaces that of a zerolog.Logger; the
// levels of another handler still apply.
func Leveled(log *slog.Logger, level zerolog.Level) *slog.Logger {
	f, adapted := log.Handler().(fielder)
	if !adapted || f.plain == nil {
		return slog.New(atLeast{log.Handler(), slogLevel(level)})
	}
	own := f.plain.Level(level)
	return slog.New(fielder{to: zerolog.NewSlogHandler(own), plain: &own, book: f.book})
}

// atLeast drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled implements slog.Handler.
func (a atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= a.level && a.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (a atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{a.Handler.WithAttrs(attrs), a.level}
}

// WithGroup implements slog.Handler.
func (a atLeast) WithGroup(name string) slog.Handler {
	return atLeast{a.Handler.WithGroup(name), a.level}
}
