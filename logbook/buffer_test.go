package logbook_test

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
		buffer := logbook.New(logbook.JSON(&out, slog.LevelInfo))
		log := buffer.Logger()
		for _, message := range []string{"one", "two", "three"} {
			log.Info(message, "jid", "abc")
		}
		require.True(t, buffer.Flush(patience))
		require.Regexp(t, `(?s)^\{"level":"info","jid":"abc","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","message":"one"\}
.*"two".*"three"\}
$`, out.String())
		require.Zero(t, buffer.Dropped())
		require.True(t, buffer.Flush(0), "it does not wait when there is nothing")
	})

	t.Run("does not block if the reader has stopped, drops the oldest lines, counts them and logs the count", func(t *testing.T) {
		t.Parallel()
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		buffer := logbook.New(logbook.JSON(writer, slog.LevelInfo))
		log := buffer.Logger()
		filler := strings.Repeat("x", 100)
		const lines = 20_000 // far more than a pipe and a buffer hold
		for n := range lines {
			log.Info(filler, "n", n) // would hang for ever
		}
		require.False(t, buffer.Flush(time.Millisecond))
		dropped := buffer.Dropped()
		require.Positive(t, dropped)

		read := make(chan string)
		go func() {
			text, _ := io.ReadAll(reader)
			read <- string(text)
		}()
		require.True(t, buffer.Flush(patience))
		require.NoError(t, writer.Close())
		text := <-read
		require.Contains(t, text[max(0, len(text)-1000):], `"n":19999,`, "the newest line is kept")
		require.Equal(t, dropped, buffer.Dropped(), "the reader lost no more lines")
		reported := uint64(0)
		for _, count := range regexp.MustCompile(`"level":"warn","lines":(\d+)`).FindAllStringSubmatch(text, -1) {
			lines, err := strconv.ParseUint(count[1], 10, 64)
			require.NoError(t, err)
			reported += lines
		}
		require.Equal(t, dropped, reported)
		require.Equal(t, uint64(lines), dropped+uint64(strings.Count(text, filler)), "each line is read or counted")
		require.NoError(t, reader.Close())
	})

	t.Run("buffers only a few megabytes of long lines", func(t *testing.T) {
		t.Parallel()
		goOn := make(chan struct{})
		var most int
		buffer := logbook.New(logbook.JSON(writerFunc(func(p []byte) (int, error) {
			<-goOn
			most = max(most, len(p))
			return len(p), nil
		}), slog.LevelInfo))
		log := buffer.Logger()
		dump := strings.Repeat("goroutine ", 100_000)
		for range 30 {
			log.Info(dump)
			log.Info("of bytes", "dump", []byte(dump))
		}
		require.GreaterOrEqual(t, buffer.Dropped(), uint64(55))
		close(goOn)
		require.True(t, buffer.Flush(patience))
		require.Greater(t, most, len(dump))
	})

	t.Run("survives a reader that panics or ends its goroutine", func(t *testing.T) {
		t.Parallel()
		var out shared
		buffer := logbook.New(logbook.JSON(writerFunc(func(p []byte) (int, error) {
			switch {
			case bytes.Contains(p, []byte("panic")):
				panic("reader")
			case bytes.Contains(p, []byte("goexit")):
				runtime.Goexit()
			}
			return out.Write(p)
		}), slog.LevelInfo))
		log := buffer.Logger()
		for _, message := range []string{"panic", "goexit", "fine"} {
			log.Info(message)
			require.True(t, buffer.Flush(patience))
		}
		require.Contains(t, out.String(), "fine")
		require.Equal(t, uint64(2), buffer.Dropped())
	})

	t.Run("accepts lines from any goroutine, its own reader included", func(t *testing.T) {
		t.Parallel()
		var out shared
		var log *slog.Logger
		buffer := logbook.New(logbook.JSON(writerFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("first")) {
				log.Info("of the reader")
			}
			return out.Write(p)
		}), slog.LevelInfo))
		log = buffer.Logger()
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for range 100 {
					log.Info("first")
				}
			})
		}
		writers.Wait()
		require.True(t, buffer.Flush(patience))
		require.Equal(t, 800, strings.Count(out.String(), "of the reader"))
		require.Zero(t, buffer.Dropped())
	})
}
