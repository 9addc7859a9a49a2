package belay

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/logbook"
)

// Log is the logger for lines of a handler's own: each has the run's jid, class, queue and attempt, and goes where the
// Server's log does. Outside of a run it is slog.Default(). Who has zerolog instead gets the same by zerolog.Ctx(ctx). A run
// that logs nothing pays nothing.
//
// A handler waits for its logger, which with Logger and SlogHandler is the program's own, and may be a moment ahead of what
// the server says; only the default log, to standard error, and a Logbook's keep nobody waiting.
func Log(ctx context.Context) *slog.Logger { return launcher.Log(ctx) }

// Logger receives what operators should know: outages, processes that died, failed runs, and at level debug every run.
// Without it, SlogHandler or Logbook that goes to standard error, as JSON from level info on; a zerolog.Nop() is silence.
//
// Neither jobs nor heartbeats wait for log: the server's lines go through a logbook.Book, and those for which there is no
// room are dropped, counted and told of.
func Logger(log zerolog.Logger) ServerOption {
	return func(c *serverConfig) {
		c.logTo(logbook.ToZerolog(log), launcher.Logging{Zerolog: &log})
		c.relevel = func(level zerolog.Level) {
			own := log.Level(level)
			c.logTo(logbook.ToZerolog(own), launcher.Logging{Zerolog: &own})
		}
	}
}

// SlogHandler is Logger for slog: levels and fields are its own kinds. It is asked each time whether a level is Enabled.
func SlogHandler(h slog.Handler) ServerOption {
	return func(c *serverConfig) {
		if h == nil {
			c.wrong = append(c.wrong, errors.New("the SlogHandler is nil"))
			return
		}
		c.logTo(logbook.ToSlog(h), launcher.Logging{Slog: h})
		c.relevel = func(level zerolog.Level) {
			own := atLeast{h, 4 * slog.Level(level-zerolog.InfoLevel)} // slog's levels are four apart, and info is 0
			c.logTo(logbook.ToSlog(own), launcher.Logging{Slog: own})
		}
	}
}

// Logbook is Logger for a Book that the program has made, which handlers' lines go to as well.
func Logbook(book *logbook.Book) ServerOption {
	return func(c *serverConfig) {
		if book == nil {
			c.wrong = append(c.wrong, errors.New("the Logbook is nil"))
			return
		}
		log := book.Logger()
		c.logTo(book, launcher.Logging{Zerolog: &log})
		c.relevel = func(level zerolog.Level) {
			own := log.Level(level)
			c.logTo(book, launcher.Logging{Zerolog: &own})
			c.Log = &own
		}
	}
}

// atLeast drops records below a level. The handler's own level still applies.
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

// logTo says where lines go, and leaves alone what they show.
func (c *serverConfig) logTo(book *logbook.Book, to launcher.Logging) {
	c.book = book
	c.Logging.Zerolog, c.Logging.Slog = to.Zerolog, to.Slog
	log := book.Logger()
	c.Log = &log
}

// withLog is the default of logTo.
func (c *serverConfig) withLog() {
	if c.book == nil {
		Logbook(logbook.ToWriter(os.Stderr, zerolog.InfoLevel))(c)
	}
}

// LogArgs shows jobs' arguments in the log, as the text of their JSON up to 4 KiB, in the line that each run has at level
// debug. They may hold anything; see Redact. Without it the log shows none.
func LogArgs() ServerOption { return func(c *serverConfig) { c.Logging.Args = true } }

// Redact says what LogArgs shows of the arguments of a job: what it answers, which need not be JSON. It is called by many
// goroutines at once. If it panics, nothing is shown.
func Redact(show func(class string, args json.RawMessage) json.RawMessage) ServerOption {
	return func(c *serverConfig) {
		if c.Logging.Redact = show; show == nil {
			c.wrong = append(c.wrong, errors.New("the function of Redact is nil"))
		}
	}
}

// RedactError says what the log shows of the error of a run, and, with an empty class, of a panic in a hook; without it,
// its text. It is called by many goroutines at once.
// If it panics, nothing is shown. What is stored in Redis with a failed job, for dashboards, it does not change.
func RedactError(show func(class string, err error) string) ServerOption {
	return func(c *serverConfig) {
		if c.Logging.RedactError = show; show == nil {
			c.wrong = append(c.wrong, errors.New("the function of RedactError is nil"))
		}
	}
}

// DroppedLines is how many lines of the server's log were dropped, because its reader was too slow or failed by a panic.
func (s *Server) DroppedLines() uint64 {
	s.made("DroppedLines")
	return s.book.Dropped()
}

// lastWords is how long the end of a server, and of a program, waits for the reader of its log.
const lastWords = time.Second
