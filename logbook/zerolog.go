package logbook

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// lateAfter is how long a record must have waited to get the field waited_ms, if its time is that of the
// writing.
const lateAfter = time.Second

// JSON returns a handler that writes records of this level and above to w: JSON with times in UTC and
// milliseconds, one call of Write for each line, escaped by EscapeJSON. It ignores errors of w.
func JSON(w io.Writer, level slog.Level) slog.Handler {
	out := escaped{w}
	log := zerolog.New(out).Level(zerologLevel(level))
	return zerologHandler{to: zerolog.NewSlogHandler(log), log: log, out: out}
}

// Zerolog returns a handler whose records become lines of log, with log's level, fields and hooks. The name of
// a group and a dot precede the names of its fields. log adds the time, which is that of the writing; waited_ms
// is added to records that waited for more than a second.
func Zerolog(log zerolog.Logger) slog.Handler {
	return zerologHandler{to: zerolog.NewSlogHandler(log), log: log}
}

// ZerologOf returns the zerolog.Logger that h writes by, with h's fields, or nil if h is not of JSON or
// Zerolog. Lines written to it directly have the same form, and are buffered if h writes into a Buffer.
func ZerologOf(h slog.Handler) *zerolog.Logger {
	switch h := h.(type) {
	case handler:
		return ZerologOf(h.to)
	case zerologHandler:
		if h.out != nil {
			h.log = h.log.Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
				e.Str(zerolog.TimestampFieldName, timestamp(time.Now()))
			}))
		}
		return &h.log
	}
	return nil
}

// A zerologHandler names fields by their groups itself: zerolog's own handler puts what was added before a
// group into it, too.
type zerologHandler struct {
	to    slog.Handler // that knows of no groups
	group string       // what stands before names, with a dot
	// log is the logger that to writes to, with the attributes that were added.
	log zerolog.Logger
	// out is what to writes to, for a handler of JSON, which gives each record its time.
	out io.Writer
}

// into returns the handler with another writer.
func (h zerologHandler) into(out io.Writer) zerologHandler {
	h.log, h.out = h.log.Output(out), out
	h.to = zerolog.NewSlogHandler(h.log)
	return h
}

// Enabled implements slog.Handler.
func (h zerologHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h zerologHandler) Handle(ctx context.Context, record slog.Record) error {
	written := slog.NewRecord(time.Time{}, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		written.AddAttrs(h.within(attr))
		return true
	})
	switch waited := time.Since(record.Time); {
	case h.out != nil:
		written.AddAttrs(slog.String(zerolog.TimestampFieldName, timestamp(record.Time)))
	case waited >= lateAfter && !record.Time.IsZero():
		written.AddAttrs(Millis("waited_ms", waited))
	}
	return h.to.Handle(ctx, written)
}

// WithAttrs implements slog.Handler.
func (h zerologHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	named := make([]slog.Attr, len(attrs))
	for i, attr := range attrs {
		named[i] = h.within(attr)
	}
	h.to, h.log = h.to.WithAttrs(named), withFields(h.log.With(), "", named).Logger()
	return h
}

// WithGroup implements slog.Handler.
func (h zerologHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.group += name + "."
	}
	return h
}

// within is an attribute of the open group.
func (h zerologHandler) within(attr slog.Attr) slog.Attr {
	if attr.Value = attr.Value.Resolve(); attr.Key != "" {
		attr.Key = h.group + attr.Key
		return attr
	}
	if attr.Value.Kind() != slog.KindGroup {
		return slog.Attr{} // as slog wants it: without a name there is no field
	}
	var inner []slog.Attr // of a group without a name, which stand in its place
	for _, member := range attr.Value.Group() {
		inner = append(inner, h.within(member))
	}
	attr.Value = slog.GroupValue(inner...)
	return attr
}

// withFields adds attributes to a zerolog.Logger as zerolog's handler writes them.
func withFields(fields zerolog.Context, group string, attrs []slog.Attr) zerolog.Context {
	for _, attr := range attrs {
		switch name, value := group+attr.Key, attr.Value; {
		case value.Kind() == slog.KindGroup:
			if attr.Key != "" {
				name += "."
			}
			fields = withFields(fields, name, value.Group())
		case value.Kind() == slog.KindString && attr.Key != "":
			fields = fields.Str(name, value.String())
		case value.Kind() == slog.KindDuration:
			fields = fields.Dur(name, value.Duration())
		case attr.Key != "":
			fields = fields.Interface(name, value.Any())
		}
	}
	return fields
}

// Leveled returns a handler that drops records below level. The level replaces that of a handler of JSON or
// Zerolog; the levels of another handler still apply.
func Leveled(h slog.Handler, level slog.Level) slog.Handler {
	switch h := h.(type) {
	case handler:
		h.to = Leveled(h.to, level)
		return h
	case zerologHandler:
		h.log = h.log.Level(zerologLevel(level))
		h.to = zerolog.NewSlogHandler(h.log)
		return h
	}
	return atLeast{h, level}
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

// zerologLevel converts a level, as zerolog's handler does.
func zerologLevel(level slog.Level) zerolog.Level {
	switch {
	case level < slog.LevelDebug:
		return zerolog.TraceLevel
	case level < slog.LevelInfo:
		return zerolog.DebugLevel
	case level < slog.LevelWarn:
		return zerolog.InfoLevel
	case level < slog.LevelError:
		return zerolog.WarnLevel
	}
	return zerolog.ErrorLevel
}

func timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// An escaped writer writes lines of JSON that are safe to show on a terminal.
type escaped struct{ io.Writer }

// Write implements io.Writer.
func (e escaped) Write(line []byte) (int, error) {
	_, err := e.Writer.Write(EscapeJSON(line))
	return len(line), err
}
