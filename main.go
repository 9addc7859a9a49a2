package belay

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/flagset"
	"github.com/belayq/belay/logbook"
)

const defaultURL = "redis://127.0.0.1:6379/0"

// MainConfig configures Main. The zero value is ready. Flags and environment replace what is set here.
type MainConfig struct {
	// Client, Server and Process configure the client, the server and the process of the program.
	Client  ClientConfig
	Server  ServerConfig
	Process ProcessConfig
	// Driver, if set, opens a driver of the program's own, such as one for Sentinel. Main calls it once,
	// after it has parsed the flags; an error ends the program with status 2. Main does not close the driver.
	// The flag --redis is then an error, and BELAY_REDIS_URL and REDIS_URL are ignored.
	Driver func() (driver.Client, error)
	// RedisURL is the URL of Redis. --redis and BELAY_REDIS_URL replace it; REDIS_URL, which may be meant for
	// another library, does not. Default: REDIS_URL, or redis://127.0.0.1:6379/0.
	RedisURL string
	// LogLevel is the least level that is logged: debug, info, warn or error. It applies to Server.Logger
	// too, but if Zerolog did not make that logger, LogLevel can only raise its level. Default: info, or the
	// logger's own.
	LogLevel string
	// LogFormat is json or console. Setting it together with Server.Logger is an error. Default: console if
	// standard error is a terminal, and json otherwise.
	LogFormat string
}

// Main is the main function of a worker program. It reads flags and environment, opens Redis, calls setUp,
// which registers the handlers, and runs the server by RunProcess until it is stopped. Then it ends the
// program.
//
//	func main() {
//		belay.Main(func(ctx context.Context, server *belay.Server) error {
//			Welcome.Handle(server, sendWelcome)
//			return nil
//		}, belay.MainConfig{Server: belay.ServerConfig{Queues: belay.Queues("critical", "mail")}})
//	}
//
// setUp gets the server for its handlers, callbacks and middleware. Server.Client pushes jobs until the server
// has stopped. Log(ctx) is the program's log. ctx ends when the last job has been settled, before the callbacks
// of OnExit run, and when Main ends for another reason. So a goroutine that setUp starts may serve handlers
// until then, and a callback of OnExit may wait for its end:
//
//	relayed := make(chan struct{})
//	go func() {
//		defer close(relayed)
//		_ = box.Run(ctx, db) // an outbox
//	}()
//	server.OnExit(func() { <-relayed })
//
// A program that reads its own settings calls Open, NewServer and Server.RunProcess instead.
//
// The flags are those of `belay work` that concern a program with handlers of its own; -h lists them. Each
// may be given in the environment too: --shutdown-timeout as BELAY_SHUTDOWN_TIMEOUT. A flag takes precedence
// over the environment, and the environment over the MainConfig. The program's own flags of package flag are
// parsed with these; words after the flags are an error. There is no configuration file: a program has its
// own way to read one, and a YAML parser would become a dependency of every program.
//
// The exit status is 0 after a stop, 1 if the server could not run, for example without handlers, and 2 for a
// wrong flag, variable or config. Functions deferred in main do not run; use Server.OnExit.
func Main(setUp func(ctx context.Context, server *Server) error, cfg MainConfig) {
	if setUp == nil {
		panic("belay: Main: the function is nil")
	}
	os.Exit(runMain(flag.CommandLine, os.Args[1:], os.LookupEnv, os.Stderr, setUp, cfg))
}

const (
	exitFailure = 1
	exitUsage   = 2
)

func runMain(set *flag.FlagSet, args []string, lookup func(string) (string, bool), errs io.Writer,
	setUp func(context.Context, *Server) error, cfg MainConfig,
) int {
	flags := cfg.Flags()
	err := flagset.ReadCommandLine(set, args, lookup, flags)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, flagset.ErrPrinted):
		return exitUsage
	case err == nil:
		err = cfg.openLog(errs)
	}
	refuse := func(err error) int {
		_, _ = fmt.Fprintln(errs, err)
		return exitUsage
	}
	if cfg.Driver != nil && slices.ContainsFunc(flags, func(f *flagset.Flag) bool { return f.Name == "redis" && f.Given }) {
		err = errors.Join(err, errors.New("--redis has no effect: the program opens Redis by its own Driver; leave it out"))
	}
	if cfg.Process.MetricsAddr != "" && cfg.Process.Metrics == nil {
		err = errors.Join(err, errors.New("--metrics has no effect: the program does not set ProcessConfig.Metrics; leave it out"))
	}
	if err != nil {
		return refuse(err)
	}
	of, closeIt, err := cfg.openClient(lookup)
	if err != nil {
		return refuse(err)
	}
	defer closeIt()
	server, err := NewServer(of, cfg.Server)
	if err != nil {
		return refuse(err)
	}
	defer server.buffer.Flush(lastWords)
	ctx, cancel := context.WithCancel(launcher.WithLog(context.Background(), cfg.Server.Logger))
	defer cancel()
	if err = setUp(ctx, server); err != nil {
		err = fmt.Errorf("set up: %w", err)
	} else {
		server.OnExit(cancel) // after those of setUp, so it runs first
		err = server.RunProcess(ctx, cfg.Process)
	}
	if err != nil {
		server.log.Error("worker failed", "error", err)
		return exitFailure
	}
	return 0
}

// openClient makes the client, of the program's driver or of the URL. Main closes only the latter.
func (cfg *MainConfig) openClient(lookup func(string) (string, bool)) (c *Client, closeIt func(), err error) {
	if cfg.Driver != nil {
		redis, err := cfg.Driver()
		if err != nil {
			return nil, nil, err
		}
		c, err = NewClient(redis, &cfg.Client)
		return c, func() {}, err
	}
	fallback, _ := lookup("REDIS_URL")
	// Not Open: a worker waits for a Redis that is away.
	c, err = client.Open(cmp.Or(cfg.RedisURL, fallback, defaultURL), cfg.Client, func(url string, options ...driver.Option) (driver.Client, error) {
		return goredisdriver.Open(url, options...)
	})
	return c, func() { _ = c.Close() }, err
}

// openLog gives the program's logger its level, or makes one that writes to errs.
func (cfg *MainConfig) openLog(errs io.Writer) error {
	var level slog.Level
	switch err := level.UnmarshalText([]byte(cmp.Or(cfg.LogLevel, "info"))); {
	case err != nil:
		return fmt.Errorf("log level %q: it must be debug, info, warn or error", cfg.LogLevel)
	case cfg.Server.Logger == nil:
		cfg.Server.Logger = logbook.New(logbook.Lines(errs, cfg.LogFormat, level)).Logger()
	case cfg.LogFormat != "":
		return errors.New("--log-format has no effect: the program has its own Logger; leave it out")
	case cfg.LogLevel != "":
		cfg.Server.Logger = slog.New(logbook.Leveled(cfg.Server.Logger.Handler(), level))
	}
	return nil
}
