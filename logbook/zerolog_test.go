package logbook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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

func TestABookOfAnyHandler(t *testing.T) {
	t.Parallel()
	t.Run("passes records on with their time and fields, which are those of the moment of logging", func(t *testing.T) {
		t.Parallel()
		kept := &keeper{}
		buffer := logbook.New(kept)
		before := time.Now()
		record := slog.NewRecord(before, slog.LevelError, "failed", 0)
		record.Add("a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6, "g", 7)
		require.NoError(t, buffer.Logger().Handler().Handle(t.Context(), record))
		record.Add("of the caller's own copy", true)
		require.True(t, buffer.Flush(patience))
		require.Len(t, kept.records, 1)
		require.Equal(t, before, kept.records[0].Time)
		require.Equal(t, 7, kept.records[0].NumAttrs())
	})
	t.Run("asks the handler for its level each time", func(t *testing.T) {
		t.Parallel()
		kept := &keeper{}
		buffer := logbook.New(kept)
		buffer.Logger().Debug("unwanted")
		kept.level.Set(slog.LevelDebug)
		buffer.Logger().Debug("now")
		require.True(t, buffer.Flush(patience))
		require.Len(t, kept.records, 1)
	})
	t.Run("keeps attributes and groups", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		buffer := logbook.New(slog.NewTextHandler(&out, nil))
		buffer.Logger().With("a", 1).WithGroup("g").Info("said", "b", 2)
		require.True(t, buffer.Flush(patience))
		require.Contains(t, out.String(), "msg=said a=1 g.b=2")
	})
	t.Run("logs the number of dropped lines as a record", func(t *testing.T) {
		t.Parallel()
		goOn := make(chan struct{})
		var out bytes.Buffer
		buffer := logbook.New(slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
			<-goOn
			return out.Write(p)
		}), nil))
		for range 10_000 {
			buffer.Logger().Info("line")
		}
		close(goOn)
		require.True(t, buffer.Flush(patience))
		require.Regexp(t, `"level":"WARN","msg":"log lines dropped[^"]*","lines":\d+\}`, out.String())
	})
	t.Run("is the one that a handler writes into", func(t *testing.T) {
		t.Parallel()
		buffer := logbook.New(slog.NewTextHandler(io.Discard, nil))
		log := buffer.Logger().With("a", 1)
		same, behind := logbook.Behind(log)
		require.Same(t, buffer, same)
		require.Same(t, log, behind)
	})
}

func TestZerolog(t *testing.T) {
	t.Parallel()
	t.Run("has the user's logger write the records, with its level, fields and hooks", func(t *testing.T) {
		t.Parallel()
		var out shared
		buffer := logbook.New(logbook.Zerolog(zerolog.New(&out).Level(zerolog.InfoLevel).With().Str("service", "shop").Logger()))
		log := buffer.Logger()
		require.False(t, log.Enabled(t.Context(), slog.LevelDebug))
		log.Warn("said \"so\"", "jid", "a\"\n", "queues", []string{"x", "y"}, logbook.Millis("took_ms", 1500*time.Microsecond), "error", errors.New("why"))
		require.True(t, buffer.Flush(patience))
		require.Equal(t, `{"level":"warn","service":"shop","jid":"a\"\n","queues":["x","y"],"took_ms":1.5,"error":"why","message":"said \"so\""}`+"\n", out.String())
	})
	t.Run("writes groups before names, and one time per line", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		log := slog.New(logbook.Zerolog(zerolog.New(&out).Level(zerolog.InfoLevel).With().Str("jid", "abc").Logger()))
		log.Debug("unwanted")
		log.With("before", 1).WithGroup("g").With("in", 2).WithGroup("h").Warn("said", "deep", 3, slog.Group("i", "j", 4), slog.Group("", "k", 5), "", 6)
		log.WithGroup("").Info("plain", "n", 1)
		require.Equal(t, `{"level":"warn","jid":"abc","before":1,"g.in":2,"g.h.deep":3,"g.h.i.j":4,"g.h.k":5,"message":"said"}`+"\n"+
			`{"level":"info","jid":"abc","n":1,"message":"plain"}`+"\n", out.String())
		out.Reset()
		slog.New(logbook.Zerolog(zerolog.New(&out).With().Timestamp().Logger())).Info("once")
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte(`"time":`)), out.String())
		out.Reset()
		slog.New(logbook.JSON(&out, slog.LevelInfo)).Info("once")
		require.Equal(t, 1, bytes.Count(out.Bytes(), []byte(`"time":`)), out.String())
	})
	t.Run("adds waited_ms to a late line", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var out shared
			first := true
			buffer := logbook.New(logbook.Zerolog(zerolog.New(writerFunc(func(p []byte) (int, error) {
				if first {
					first = false
					time.Sleep(3 * time.Second)
				}
				return out.Write(p)
			}))))
			buffer.Logger().Info("on time")
			buffer.Logger().Info("late")
			require.True(t, buffer.Flush(time.Minute))
			require.Equal(t, `{"level":"info","message":"on time"}`+"\n"+`{"level":"info","waited_ms":3000,"message":"late"}`+"\n", out.String())
		})
	})
	t.Run("builds no line for a silent logger", func(t *testing.T) {
		t.Parallel()
		for _, silent := range []zerolog.Logger{zerolog.Nop(), {}} {
			require.False(t, logbook.New(logbook.Zerolog(silent)).Logger().Enabled(t.Context(), slog.LevelError))
		}
	})
}

func TestZerologOf(t *testing.T) {
	t.Parallel()
	require.Nil(t, logbook.ZerologOf(slog.NewTextHandler(io.Discard, nil)))

	var out shared
	h := logbook.Zerolog(zerolog.New(&out)).WithAttrs([]slog.Attr{slog.Int("a", 1), slog.Duration("b", time.Second), slog.Group("g", "c", 2)})
	logbook.ZerologOf(h).Info().Msg("direct")
	require.Equal(t, `{"level":"info","a":1,"b":1000,"g.c":2,"message":"direct"}`+"\n", out.String())

	reader, goOn := &shared{}, make(chan struct{})
	buffer := logbook.New(logbook.JSON(writerFunc(func(p []byte) (int, error) {
		<-goOn
		return reader.Write(p)
	}), slog.LevelInfo))
	buffer.Logger().Info("one")
	log := logbook.ZerologOf(buffer.Logger().Handler())
	log.Debug().Msg("unwanted")
	log.Info().Msg("two") // would hang for ever if it were not buffered
	buffer.Logger().Info("three")
	close(goOn)
	require.True(t, buffer.Flush(patience))
	require.Regexp(t, `(?s)"time":"[^"]+","message":"one".*"time":"[^"]+","message":"two".*"message":"three"`, reader.String())
	require.Equal(t, 3, strings.Count(reader.String(), "\n"))
}

// A handler may log what it changes afterwards, as with any slog.Handler.
func TestALineIsOfTheMomentOfLogging(t *testing.T) {
	t.Parallel()
	var out shared
	buffer := logbook.New(logbook.JSON(&out, slog.LevelInfo))
	log := buffer.Logger().With("jid", "abc")
	counts := map[string]int{"a": 0}
	for n := range 1000 {
		counts["a"] = n
		log.Info("so far", "n", n, "counts", counts)
	}
	require.True(t, buffer.Flush(patience))
	for n := range 1000 {
		require.Contains(t, out.String(), fmt.Sprintf(`"n":%d,"counts":{"a":%d},`, n, n))
	}
}

// spoilt is a value that cannot be written.
type spoilt struct{}

func (spoilt) LogValue() slog.Value { panic("spoilt") }

func TestAValueThatPanicsCostsALine(t *testing.T) {
	t.Parallel()
	var out shared
	buffer := logbook.New(logbook.JSON(&out, slog.LevelInfo))
	buffer.Logger().Info("one", "value", spoilt{})
	buffer.Logger().Info("two")
	require.True(t, buffer.Flush(patience))
	require.Contains(t, out.String(), `"two"`)
}

func TestLeveled(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for name, c := range map[string]struct {
		of    slog.Handler
		debug bool
	}{
		"zerolog's level is replaced": {logbook.Zerolog(zerolog.New(&out).Level(zerolog.WarnLevel)), true},
		"that of JSON, too":           {logbook.New(logbook.JSON(&out, slog.LevelWarn)).Logger().Handler(), true},
		"another's still applies":     {slog.NewTextHandler(&out, nil), false},
	} {
		require.Equal(t, c.debug, logbook.Leveled(c.of, slog.LevelDebug).Enabled(t.Context(), slog.LevelDebug), name)
		require.False(t, logbook.Leveled(c.of, slog.LevelError).Enabled(t.Context(), slog.LevelWarn), name)
	}
}

// What a line costs the caller: written at once, and into a Buffer.
func BenchmarkLine(b *testing.B) {
	line := func(log *slog.Logger) {
		log.Warn("run failed", "jid", "b4a577edbccf1d805744efa9", "class", "WelcomeEmail", "queue", "mail", "attempt", 3, "took_ms", 1.5, "error", "it broke")
	}
	for name, h := range map[string]slog.Handler{
		"slog": slog.NewJSONHandler(io.Discard, nil), "zerolog": logbook.JSON(io.Discard, slog.LevelInfo),
	} {
		b.Run(name+", at once", func(b *testing.B) {
			for b.Loop() {
				line(slog.New(h))
			}
		})
		b.Run(name+", into a book", func(b *testing.B) {
			log := logbook.New(h).Logger()
			for b.Loop() {
				line(log)
			}
		})
	}
}
