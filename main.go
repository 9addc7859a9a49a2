package belay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"
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
// before the options given here. The program's own flags of package flag are parsed with these; words after the flags are an error.
// There is no configuration file: a program has its own way to read one, and a YAML parser would become a
// dependency of every program.
//
// Options are those of a Client and of a Server, and Driver. A program with its own log (Logger, SlogHandler,
// Logbook) still has --log-level, which sets that log's level too; it can only raise the level of a
// slog.Handler. --log-format is then an error.
//
// The exit status is 0 after a stop, 1 if the program could not work, such as without handlers, and 2 for a
// wrong flag, variable or option. Functions deferred in main do not run; use Server.OnExit.
func Main(setUp func(ctx context.Context, app *App) error, options ...MainOption) {
	if setUp == nil {
		panic("belay: Main: the function is nil")
	}
	os.Exit(runMain(flag.CommandLine, os.Args[1:], os.LookupEnv, os.Stderr, setUp, options))
}

// An App is what Main has made of flags and environment.
type App struct {
	// Client pushes jobs. It is open until the server has stopped.
	Client *Client
	// Server takes the handlers (by Definition.Handle, or by Register for handlers whose constructors need
	// the Client), hooks and middleware.
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
	setUp func(context.Context, *App) error, options []MainOption,
) int {
	flags := newMainFlags(set)
	if err := flags.parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage // parse has printed the reason
	}
	cfg := newMainConfig(options)
	if flags.said["redis"] && cfg.open != nil {
		cfg.wrong = append(cfg.wrong, errors.New("--redis has no effect: the program opens Redis by its own Driver; leave it out"))
	}
	refuse := func(err error) int {
		_, _ = fmt.Fprintln(errs, err)
		return exitUsage
	}
	if err := errors.Join(append(cfg.wrong, flags.readEnvironment(lookup))...); err != nil {
		return refuse(err)
	}
	book, err := flags.logbook(errs)
	if err != nil {
		return refuse(err)
	}
	redis, closeIt, err := cfg.openRedis(flags.redisURL(lookup))
	if err != nil {
		return refuse(err)
	}
	defer closeIt()
	client, err := NewClient(redis, append(cfg.client, flags.client...)...)
	if err != nil {
		return refuse(err)
	}
	defer book.Flush(lastWords)
	app := &App{Client: client, Server: NewServer(client, cfg.serverOptions(book, flags)...), Log: book.Logger()}
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
