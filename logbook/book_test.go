package logbook_test

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belayq/belay/logbook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait: far above what anything here takes, so that only a hang fails by it.
const patience = 20 * time.Second

// shared is a text that several goroutines write.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// writerFunc is a reader that does as it likes.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBook(t *testing.T) {
	t.Parallel()
	t.Run("writes lines in order, with their time, and keeps no goroutine", func(t *testing.T) {
		t.Parallel()
		var out shared
		book := logbook.ToWriter(&out, zerolog.InfoLevel)
		log := book.Logger()
		for _, message := range []string{"one", "two", "three"} {
			log.Info().Str("jid", "abc").Msg(message)
		}
		require.True(t, book.Flush(patience))
		require.Regexp(t, `(?s)^\{"level":"info","jid":"abc","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","message":"one"\}
.*"two".*"three"\}
$`, out.String())
		require.Zero(t, book.Dropped())
		require.True(t, book.Flush(0), "it does not wait when there is nothing")
	})

	t.Run("does not block if the reader has stopped, drops the oldest lines, counts them and logs the count", func(t *testing.T) {
		t.Parallel()
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		book := logbook.ToWriter(writer, zerolog.InfoLevel)
		log := book.Logger()
		filler := strings.Repeat("x", 100)
		const lines = 20_000 // far more than a pipe and a book hold
		for n := range lines {
			log.Info().Int("n", n).Msg(filler) // would hang for ever
		}
		require.False(t, book.Flush(time.Millisecond))
		dropped := book.Dropped()
		require.Positive(t, dropped)

		read := make(chan string)
		go func() {
			text, _ := io.ReadAll(reader)
			read <- string(text)
		}()
		require.True(t, book.Flush(patience))
		require.NoError(t, writer.Close())
		text := <-read
		require.Contains(t, text[max(0, len(text)-1000):], `"n":19999,`, "the newest line is kept")
		require.Equal(t, dropped, book.Dropped(), "the reader lost no more lines")
		said := uint64(0)
		for _, count := range regexp.MustCompile(`"level":"warn","lines":(\d+)`).FindAllStringSubmatch(text, -1) {
			lines, err := strconv.ParseUint(count[1], 10, 64)
			require.NoError(t, err)
			said += lines
		}
		require.Equal(t, dropped, said)
		require.Equal(t, uint64(lines), dropped+uint64(strings.Count(text, filler)), "each line is read or counted")
		require.NoError(t, reader.Close())
	})

	t.Run("buffers only a few megabytes of long lines", func(t *testing.T) {
		t.Parallel()
		goOn := make(chan struct{})
		var most int
		book := logbook.ToWriter(writerFunc(func(p []byte) (int, error) {
			<-goOn
			most = max(most, len(p))
			return len(p), nil
		}), zerolog.InfoLevel)
		log := book.Logger()
		dump := strings.Repeat("goroutine ", 100_000)
		for range 30 {
			log.Info().Msg(dump)
		}
		require.GreaterOrEqual(t, book.Dropped(), uint64(25))
		close(goOn)
		require.True(t, book.Flush(patience))
		require.Greater(t, most, len(dump))
	})

	t.Run("survives a reader that panics or ends its goroutine", func(t *testing.T) {
		t.Parallel()
		var out shared
		book := logbook.ToWriter(writerFunc(func(p []byte) (int, error) {
			switch {
			case bytes.Contains(p, []byte("panic")):
				panic("reader")
			case bytes.Contains(p, []byte("goexit")):
				runtime.Goexit()
			}
			return out.Write(p)
		}), zerolog.InfoLevel)
		log := book.Logger()
		for _, message := range []string{"panic", "goexit", "fine"} {
			log.Info().Msg(message)
			require.True(t, book.Flush(patience))
		}
		require.Contains(t, out.String(), "fine")
		require.Equal(t, uint64(2), book.Dropped())
	})

	t.Run("accepts lines from any goroutine, its own reader included", func(t *testing.T) {
		t.Parallel()
		var out shared
		var log zerolog.Logger
		book := logbook.ToWriter(writerFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("first")) {
				log.Info().Msg("of the reader")
			}
			return out.Write(p)
		}), zerolog.InfoLevel)
		log = book.Logger()
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for range 100 {
					log.Info().Msg("first")
				}
			})
		}
		writers.Wait()
		require.True(t, book.Flush(patience))
		require.Equal(t, 800, strings.Count(out.String(), "of the reader"))
		require.Zero(t, book.Dropped())
	})
}

func TestToZerolog(t *testing.T) {
	t.Parallel()
	t.Run("has the user's logger write the lines, with its level, fields and hooks", func(t *testing.T) {
		t.Parallel()
		var out shared
		book := logbook.ToZerolog(zerolog.New(&out).Level(zerolog.InfoLevel).With().Str("service", "shop").Logger())
		log := book.Logger()
		log.Debug().Func(func(*zerolog.Event) { t.Error("made for nothing") }).Msg("unwanted")
		log.Warn().Str("jid", "a\"\n").Strs("queues", []string{"x", "y"}).Float64("took_ms", 1.50).Msg("said \"so\"")
		require.True(t, book.Flush(patience))
		require.Equal(t, `{"level":"warn","service":"shop","jid":"a\"\n","queues":["x","y"],"took_ms":1.5,"message":"said \"so\""}`+"\n", out.String())
	})
	t.Run("adds waited_ms to a late line", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var out shared
			first := true
			book := logbook.ToZerolog(zerolog.New(writerFunc(func(p []byte) (int, error) {
				if first {
					first = false
					time.Sleep(3 * time.Second)
				}
				return out.Write(p)
			})))
			log := book.Logger()
			log.Info().Msg("on time")
			log.Info().Msg("late")
			require.True(t, book.Flush(time.Minute))
			require.Equal(t, `{"level":"info","message":"on time"}`+"\n"+`{"level":"info","waited_ms":3000,"message":"late"}`+"\n", out.String())
		})
	})
	t.Run("builds no line for a silent logger", func(t *testing.T) {
		t.Parallel()
		for _, silent := range []zerolog.Logger{zerolog.Nop(), {}} {
			log := logbook.ToZerolog(silent).Logger()
			log.Error().Msg("unread")
		}
	})
}
