package belay

import (
	"context"
	"log/slog"
	"time"

	"github.com/belayq/belay/launcher"
)

// Log returns the logger of the run that ctx belongs to. Its lines have the run's jid, class, queue and
// attempt, and go to the Server's Logger. Outside of a run it is the program's log in
// the function that Main calls and in OnStart, and else slog.Default(). If the Logger is the default
// one or of Zerolog, zerolog.Ctx(ctx) writes such lines too.
//
// A handler waits for its logger if the program has set ServerConfig.Logger, and its lines may precede
// earlier ones of the server, which are buffered. The default log to standard error is buffered for handlers
// too.
func Log(ctx context.Context) *slog.Logger { return launcher.Log(ctx) }

// lastWords is how long the end of a server, and of a program, waits for the reader of its log.
const lastWords = time.Second
