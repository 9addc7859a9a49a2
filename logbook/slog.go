package logbook

import (
	"context"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// ZerologTo returns a logger whose lines become records of h, in the goroutine that logs: it is for handlers'
// own lines.
func ZerologTo(h slog.Handler) zerolog.Logger { return zerolog.New(recorder{h}).Sample(enabled{h}) }

// recorder converts lines to records.
type recorder struct{ to slog.Handler }

// Write implements io.Writer.
func (r recorder) Write(text []byte) (int, error) { return r.WriteLevel(zerolog.NoLevel, text) }

// WriteLevel implements zerolog.LevelWriter.
func (r recorder) WriteLevel(level zerolog.Level, text []byte) (int, error) {
	handle(r.to, line{at: time.Now(), level: level, text: text})
	return len(text), nil
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
