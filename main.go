package belay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver/goredisdriver"
)

// Main is the main function of a worker program. It reads flags and environment, opens Redis, calls setUp for the handlers,
// and runs the server, with signals, health checks and systemd as a Process has them, until it is stopped. Then it ends the
// program.
//
//	func main() {
//		belay.Main(func(ctx context.Context, app *belay.App) error {
//			Welcome.Handle(app.Server, sendWelcome)
//			return nil
//		})
//	}
//
// Flags are those of `belay work`, as far as they concern a program with handlers of its own; -h lists them. Each may be
// given in the environment too: --shutdown-timeout as BELAY_SHUTDOWN_TIMEOUT. A flag comes before the environment, and this
// before the options given here. The program's own flags of package flag are parsed with these. There is no file of
// settings: a program has its own way to read one, and this package would bring a YAML parser to all.
//
// The exit status is 0 after a stop, 1 when the program could not work, and 2 for a wrong flag, variable or option. What is
// deferred in main does not run; Server.OnExit is the place for that.
func Main(setUp func(ctx context.Context, app *App) error, options ...ServerOption) {
	if setUp == nil {
		panic("belay: Main: the function is nil")
	}
	os.Exit(runMain(flag.CommandLine, os.Args[1:], os.LookupEnv, os.Stderr, setUp, options))
}

// An App is what Main has made of flags and environment.
type App struct {
	// Client pushes jobs. It is open until the server has stopped.
	Client *Client
	// Server is to be given its handlers, hooks and middleware.
	Server *Server
	// Log is the program's log, as --log-level and --log-format want it. Nobody waits for its reader.
	Log zerolog.Logger
	// Reopen, if set, is called at USR2.
	Reopen func()
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func runMain(set *flag.FlagSet, args []string, lookup func(string) (string, bool), errs io.Writer,
	setUp func(context.Context, *App) error, options []ServerOption,
) int {
	flags := newMainFlags(set)
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage // the set has said why
	}
	refuse := func(err error) int {
		_, _ = fmt.Fprintln(errs, err)
		return exitUsage
	}
	if err := flags.readEnvironment(lookup); err != nil {
		return refuse(err)
	}
	book, err := flags.logbook(errs)
	if err != nil {
		return refuse(err)
	}
	// Not Open: a worker whose Redis is away waits for it.
	redis, err := goredisdriver.Open(flags.redisURL(lookup))
	if err != nil {
		return refuse(err)
	}
	defer func() { _ = redis.Close() }()
	client, err := NewClient(redis, Prefix(flags.prefix))
	if err != nil {
		return refuse(err)
	}
	defer book.Flush(lastWords)
	// The log first, so that the program may bring one of its own.
	options = append(append([]ServerOption{Logbook(book)}, options...), flags.options...)
	app := &App{Client: client, Server: NewServer(client, options...), Log: book.Logger()}
	if err := app.Server.Check(); err != nil {
		return refuse(err)
	}
	if err := app.run(setUp, flags.healthAddr); err != nil {
		app.Log.Error().Err(err).Msg("the worker ends")
		return exitFailure
	}
	return 0
}

func (a *App) run(setUp func(context.Context, *App) error, healthAddr string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := setUp(ctx, a); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return Process{Server: a.Server, HealthAddr: healthAddr, Reopen: a.Reopen}.Run(ctx)
}
