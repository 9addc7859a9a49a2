package logbook

import (
	"context"
	"log/slog"

	"github.com/rs/zerolog"
)

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
