package belay

import (
	"context"
	"log/slog"
	"time"

	"github.com/belayq/belay/launcher"
)

// Log returns the logger of the run that ctx belongs to. Its lines have the run's jid, class, queue and
// attempt, and go to ServerConfig.Logger. In the function that Main calls and in the callbacks of OnStart, Log
// returns the program's logger, and elsewhere outside of a run slog.Default(). If ServerConfig.Logger is not
// set, or is made by the function Zerolog, zerolog.Ctx(ctx) returns a logger that writes the same lines.
//
// If ServerConfig.Logger is set, a handler's lines are not buffered: the handler waits for the logger. The
// server's own lines are buffered, so a handler's line may appear before an earlier line of the server. The
// default log to standard error is buffered for handlers too.
func Log(ctx context.Context) *slog.Logger { return launcher.Log(ctx) }

// lastWords is how long the end of a server, and of a program, waits for the reader of its log.
const lastWords = time.Second
