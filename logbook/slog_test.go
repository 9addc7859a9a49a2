package logbook_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/belayq/belay/logbook"
)

// keeper is a slog.Handler that keeps what it is given.
type keeper struct {
	level   slog.LevelVar
	records []slog.Record
}

func (k *keeper) Enabled(_ context.Context, level slog.Level) bool { return level >= k.level.Level() }
func (k *keeper) WithAttrs([]slog.Attr) slog.Handler               { panic("not asked for here") }
func (k *keeper) WithGroup(string) slog.Handler                    { panic("not asked for here") }
func (k *keeper) Handle(_ context.Context, record slog.Record) error {
	k.records = append(k.records, record)
	return errors.New("of no caller")
}

func TestToSlog(t *testing.T) {
	t.Parallel()
	t.Run("converts lines to records, with levels, time and typed fields in order", func(t *testing.T) {
		t.Parallel()
		kept := &keeper{}
		kept.level.Set(slog.LevelDebug - 4)
		book := logbook.ToSlog(kept)
		log := book.Logger()
		before := time.Now()
		log.Error().Err(errors.New("why")).Str("jid", "abc\x01").Int64("big", 9007199254740993).Dur("took_ms", 1500*time.Microsecond).
			Bool("left", true).Strs("queues", []string{"a", "b"}).Interface("none", nil).Msg("it \"failed\"")
		log.Trace().Msg("t")
		log.Debug().Msg("d")
		log.Info().Msg("i")
		log.Warn().Msg("w")
		log.Log().Msg("-")
		require.True(t, book.Flush(patience))

		require.Len(t, kept.records, 6)
		first := kept.records[0]
		require.Equal(t, `it "failed"`, first.Message)
		require.WithinRange(t, first.Time, before, time.Now())
		var attrs []slog.Attr
		first.Attrs(func(attr slog.Attr) bool {
			attrs = append(attrs, attr)
			return true
		})
		require.Equal(t, []slog.Attr{
			slog.String("error", "why"), slog.String("jid", "abc\x01"), slog.Int64("big", 9007199254740993), slog.Float64("took_ms", 1.5),
			slog.Bool("left", true), slog.Any("queues", []any{"a", "b"}), slog.Any("none", nil),
		}, attrs)
		var levels []slog.Level
		for _, record := range kept.records {
			levels = append(levels, record.Level)
		}
		require.Equal(t, []slog.Level{slog.LevelError, slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelInfo}, levels)
	})
	t.Run("asks the handler for its level before each line is built", func(t *testing.T) {
		t.Parallel()
		kept := &keeper{}
		book := logbook.ToSlog(kept)
		log := book.Logger()
		log.Debug().Func(func(*zerolog.Event) { t.Error("made for nothing") }).Msg("unwanted")
		kept.level.Set(slog.LevelDebug)
		log.Debug().Msg("now")
		require.True(t, book.Flush(patience))
		require.Len(t, kept.records, 1)
	})
	t.Run("logs dropped lines as a record", func(t *testing.T) {
		t.Parallel()
		goOn := make(chan struct{})
		var out bytes.Buffer
		to := slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
			<-goOn
			return out.Write(p)
		}), nil)
		book := logbook.ToSlog(to)
		log := book.Logger()
		for range 10_000 {
			log.Info().Msg("line")
		}
		close(goOn)
		require.True(t, book.Flush(patience))
		require.Regexp(t, `"level":"WARN","msg":"log lines dropped[^"]*","lines":\d+\}`, out.String())
	})
}

func TestZerologTo(t *testing.T) {
	t.Parallel()
	t.Run("converts a handler's zerolog lines to records at once", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		log := logbook.ZerologTo(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})).With().Str("jid", "abc").Logger()
		log.Info().Msg("unwanted")
		log.Warn().Int("n", 5).Msg("wanted")
		require.Regexp(t, `^time=\S+ level=WARN msg=wanted jid=abc n=5\n$`, out.String())
	})
}

func TestSlogTo(t *testing.T) {
	t.Parallel()
	t.Run("converts records to lines, with the logger's time and groups before names", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		log := slog.New(logbook.SlogTo(zerolog.New(&out).Level(zerolog.InfoLevel).With().Str("jid", "abc").Logger()))
		log.Debug("unwanted")
		log.With("before", 1).WithGroup("g").With("in", 2).WithGroup("h").Warn("said", "deep", 3, slog.Group("i", "j", 4), slog.Group("", "k", 5), "", 6)
		log.WithGroup("").Info("plain", "n", 1)
		require.Equal(t, `{"level":"warn","jid":"abc","before":1,"g.in":2,"g.h.deep":3,"g.h.i.j":4,"g.h.k":5,"message":"said"}`+"\n"+
			`{"level":"info","jid":"abc","n":1,"message":"plain"}`+"\n", out.String())
	})
	t.Run("writes one time per line", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		slog.New(logbook.SlogTo(zerolog.New(&out).Hook(logbook.Timestamps{}))).Info("once")
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte(`"time":`)), out.String())
	})
}

// What the way through JSON costs: to a slog.Handler directly, and through a line that is read again.
func BenchmarkSlog(b *testing.B) {
	h := slog.NewJSONHandler(io.Discard, nil)
	b.Run("direct", func(b *testing.B) {
		log := slog.New(h)
		for b.Loop() {
			log.Warn("run failed", "jid", "b4a577edbccf1d805744efa9", "class", "WelcomeEmail", "queue", "mail", "attempt", 3, "took_ms", 1.5, "error", "it broke")
		}
	})
	b.Run("through a line", func(b *testing.B) {
		log := logbook.ZerologTo(h)
		for b.Loop() {
			log.Warn().Str("jid", "b4a577edbccf1d805744efa9").Str("class", "WelcomeEmail").Str("queue", "mail").Int("attempt", 3).
				Float64("took_ms", 1.5).Str("error", "it broke").Msg("run failed")
		}
	})
	b.Run("into a book", func(b *testing.B) {
		log := logbook.ToWriter(io.Discard, zerolog.InfoLevel).Logger()
		for b.Loop() {
			log.Warn().Str("jid", "b4a577edbccf1d805744efa9").Str("class", "WelcomeEmail").Str("queue", "mail").Int("attempt", 3).
				Float64("took_ms", 1.5).Str("error", "it broke").Msg("run failed")
		}
	})
}
