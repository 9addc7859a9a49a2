package logbook

import (
	"context"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// ZerologTo returns a logger whose lines become records of h, in the goroutine that logs: it is for handlers'
// own lines.
func ZerologTo(h slog.Handler) zerolog.Logger {
	return zerolog.New(sink(func(l line) { handle(h, l) })).Sample(enabled{h})
}

// handle passes a line to h as a record, if h is enabled for it.
func handle(h slog.Handler, l line) {
	level := slogLevel(l.level)
	if !h.Enabled(context.Background(), level) {
		return
	}
	record := slog.NewRecord(l.at, level, "", 0)
	var attrs []slog.Attr
	record.Message = eachField(l.text, func(name string, value []byte) {
		attrs = append(attrs, slog.Attr{Key: name, Value: slogValue(value)})
	})
	record.AddAttrs(attrs...)
	_ = h.Handle(context.Background(), record)
}

// slogLevel converts a level.
func slogLevel(level zerolog.Level) slog.Level {
	switch level {
	case zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case zerolog.DebugLevel:
		return slog.LevelDebug
	case zerolog.WarnLevel:
		return slog.LevelWarn
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// SlogTo returns a slog.Handler whose records become lines of log, in the goroutine that writes them. The
// name of a group and a dot precede the names of its fields. The time of a line is log's to write.
func SlogTo(log zerolog.Logger) slog.Handler {
	return fielder{to: zerolog.NewSlogHandler(log), plain: &log}
}

// A fielder names fields by their groups itself: zerolog's own handler puts what was added before a group
// into it, too. It would also write the time of a record beside that of a hook of the logger's.
type fielder struct {
	to    slog.Handler // that knows of no groups
	group string       // what stands before names, with a dot
	// plain is the logger that to writes to, and book the Book that this writes into, if any. Both are nil
	// once attributes or a group were added, which neither has.
	plain *zerolog.Logger
	book  *Book
}

// Enabled implements slog.Handler.
func (f fielder) Enabled(ctx context.Context, level slog.Level) bool { return f.to.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (f fielder) Handle(ctx context.Context, record slog.Record) error {
	if f.group == "" {
		record.Time = time.Time{}
		return f.to.Handle(ctx, record)
	}
	grouped := slog.NewRecord(time.Time{}, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		grouped.AddAttrs(f.within(attr))
		return true
	})
	return f.to.Handle(ctx, grouped)
}

// WithAttrs implements slog.Handler.
func (f fielder) WithAttrs(attrs []slog.Attr) slog.Handler {
	named := make([]slog.Attr, len(attrs))
	for i, attr := range attrs {
		named[i] = f.within(attr)
	}
	f.to, f.plain, f.book = f.to.WithAttrs(named), nil, nil
	return f
}

// WithGroup implements slog.Handler.
func (f fielder) WithGroup(name string) slog.Handler {
	if name != "" {
		f.group, f.plain, f.book = f.group+name+".", nil, nil
	}
	return f
}

// within is an attribute of the open group.
func (f fielder) within(attr slog.Attr) slog.Attr {
	if attr.Value = attr.Value.Resolve(); attr.Key != "" {
		attr.Key = f.group + attr.Key
		return attr
	}
	if attr.Value.Kind() != slog.KindGroup {
		return slog.Attr{} // as slog wants it: without a name there is no field
	}
	var inner []slog.Attr // of a group without a name, which stand in its place
	for _, one := range attr.Value.Group() {
		inner = append(inner, f.within(one))
	}
	attr.Value = slog.GroupValue(inner...)
	return attr
}
