package belay

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/logbook"
)

const defaultURL = "redis://127.0.0.1:6379/0"

// MainConfig configures Main. The zero value is ready. Flags and environment replace what is set here.
type MainConfig struct {
	// Client and Server configure the client and the server of the program.
	Client ClientConfig
	Server ServerConfig
	// Driver, if set, opens a driver of the program's own, such as one for Sentinel. Main calls it once,
	// after it has parsed the flags; an error ends the program with status 2. The program closes the driver.
	// The flag --redis is then an error, and BELAY_REDIS_URL and REDIS_URL are ignored.
	Driver func() (driver.Client, error)
	// RedisURL is the URL of Redis. Default: REDIS_URL of the environment, or redis://127.0.0.1:6379/0.
	RedisURL string
	// HealthAddr is the address at which Server.Health is served, such as 127.0.0.1:7421. Default: none.
	HealthAddr string
	// MetricsAddr is the address at which Metrics, under /metrics, and Server.Health are served, such as
	// 127.0.0.1:9090. There is no authentication. Default: none.
	MetricsAddr string
	// Metrics makes the handler of /metrics: metrics.ForServer. Without it a MetricsAddr is an error: Main does
	// not import Prometheus' client library, which would become a dependency of every program.
	Metrics func(*Client, *Server) (http.Handler, error)
	// LogLevel is the least level that is logged: debug, info, warn or error. It applies to Server.Logger
	// too, but if Zerolog did not make that logger, LogLevel can only raise its level. Default: info, or the
	// logger's own.
	LogLevel string
	// LogFormat is json or console. Setting it together with Server.Logger is an error. Default: console.
	LogFormat string
}

// Main is the main function of a worker program. It reads flags and environment, opens Redis, calls setUp,
// which registers the handlers, and runs the server as a Process, with signals, health checks and systemd,
// until it is stopped. Then it ends the program.
//
//	func main() {
//		belay.Main(func(ctx context.Context, app *belay.App) error {
//			Welcome.Handle(app.Server, sendWelcome)
//			return nil
//		}, belay.MainConfig{Server: belay.ServerConfig{Queues: belay.Queues("critical", "mail")}})
//	}
//
// The flags are those of `belay work` that concern a program with handlers of its own; -h lists them. Each
// may be given in the environment too: --shutdown-timeout as BELAY_SHUTDOWN_TIMEOUT. A flag takes precedence
// over the environment, and the environment over the MainConfig. The program's own flags of package flag are
// parsed with these; words after the flags are an error. There is no configuration file: a program has its
// own way to read one, and a YAML parser would become a dependency of every program.
//
// The exit status is 0 after a stop, 1 if the server could not run, for example without handlers, and 2 for a
// wrong flag, variable or config. Functions deferred in main do not run; use Server.OnExit.
func Main(setUp func(ctx context.Context, app *App) error, cfg MainConfig) {
	if setUp == nil {
		panic("belay: Main: the function is nil")
	}
	os.Exit(runMain(flag.CommandLine, os.Args[1:], os.LookupEnv, os.Stderr, setUp, cfg))
}

// An App is what Main passes to setUp.
type App struct {
	// Client pushes jobs. It is open until the server has stopped.
	Client *Client
	// Server takes the handlers (by Definition.Handle, or by Register for handlers whose constructors need
	// the Client), callbacks and middleware.
	Server *Server
	// Log is the program's log: ServerConfig.Logger, or the default one, which is buffered.
	Log *slog.Logger
	// Reopen, if set, is called at USR2.
	Reopen func()
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func runMain(set *flag.FlagSet, args []string, lookup func(string) (string, bool), errs io.Writer,
	setUp func(context.Context, *App) error, cfg MainConfig,
) int {
	flags := Flags(&cfg)
	err := readCommandLine(set, args, lookup, flags)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errPrinted):
		return exitUsage
	case err == nil:
		err = cfg.openLog(errs)
	}
	refuse := func(err error) int {
		_, _ = fmt.Fprintln(errs, err)
		return exitUsage
	}
	if cfg.Driver != nil && slices.ContainsFunc(flags, func(f *Flag) bool { return f.Name == "redis" && f.Given }) {
		err = errors.Join(err, errors.New("--redis has no effect: the program opens Redis by its own Driver; leave it out"))
	}
	if cfg.MetricsAddr != "" && cfg.Metrics == nil {
		err = errors.Join(err, errors.New("--metrics has no effect: the program does not set MainConfig.Metrics; leave it out"))
	}
	if err != nil {
		return refuse(err)
	}
	redis, closeIt, err := cfg.openRedis(lookup)
	if err != nil {
		return refuse(err)
	}
	defer closeIt()
	client, err := NewClient(redis, &cfg.Client)
	if err != nil {
		return refuse(err)
	}
	server, err := NewServer(client, cfg.Server)
	if err != nil {
		return refuse(err)
	}
	defer server.buffer.Flush(lastWords)
	app := &App{Client: client, Server: server, Log: cfg.Server.Logger}
	if err := app.run(setUp, cfg); err != nil {
		server.log.Error("worker failed", "error", err)
		return exitFailure
	}
	return 0
}

// openRedis opens the program's driver, or one for the URL. Main closes only the latter.
func (cfg *MainConfig) openRedis(lookup func(string) (string, bool)) (redis driver.Client, closeIt func(), err error) {
	if cfg.Driver != nil {
		redis, err = cfg.Driver()
		return redis, func() {}, err
	}
	fallback, _ := lookup("REDIS_URL")
	client, err := goredisdriver.Open(cmp.Or(cfg.RedisURL, fallback, defaultURL)) // not Open: a worker waits for a Redis that is away
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil
}

// openLog gives the program's logger its level, or makes one that writes to errs.
func (cfg *MainConfig) openLog(errs io.Writer) error {
	var level slog.Level
	switch err := level.UnmarshalText([]byte(cmp.Or(cfg.LogLevel, "info"))); {
	case err != nil:
		return fmt.Errorf("log level %q: it must be debug, info, warn or error", cfg.LogLevel)
	case cfg.Server.Logger == nil:
		if cfg.LogFormat != "json" {
			errs = zerolog.ConsoleWriter{Out: errs, NoColor: true, TimeFormat: time.RFC3339}
		}
		cfg.Server.Logger = logbook.New(logbook.JSON(errs, level)).Logger()
	case cfg.LogFormat != "":
		return errors.New("--log-format has no effect: the program has its own Logger; leave it out")
	case cfg.LogLevel != "":
		cfg.Server.Logger = slog.New(logbook.Leveled(cfg.Server.Logger.Handler(), level))
	}
	return nil
}

func (a *App) run(setUp func(context.Context, *App) error, cfg MainConfig) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := setUp(ctx, a); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	p := Process{Server: a.Server, HealthAddr: cfg.HealthAddr, MetricsAddr: cfg.MetricsAddr, Reopen: a.Reopen}
	if cfg.MetricsAddr != "" {
		var err error
		if p.Metrics, err = cfg.Metrics(a.Client, a.Server); err != nil {
			return err
		}
	}
	return p.Run(ctx)
}
