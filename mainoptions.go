package belay

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/logbook"
)

// A MainOption configures Main. Every ServerOption and every ClientOption is one, and so is Driver.
type MainOption interface{ configure(c *mainConfig) }

type mainConfig struct {
	client []ClientOption
	server []ServerOption
	open   func() (driver.Client, error)
	wrong  []error
}

func (o ServerOption) configure(c *mainConfig) { c.server = append(c.server, o) }
func (o ClientOption) configure(c *mainConfig) { c.client = append(c.client, o) }

type mainOption func(*mainConfig)

func (o mainOption) configure(c *mainConfig) { o(c) }

// Driver makes Main use the program's own driver, such as one for Sentinel. Main calls open once, after all
// flags are parsed; its error ends the program with status 2. The program closes the driver. The flag --redis
// is then an error, and Main ignores BELAY_REDIS_URL and REDIS_URL.
func Driver(open func() (driver.Client, error)) MainOption {
	return mainOption(func(c *mainConfig) {
		if c.open = open; open == nil {
			c.wrong = append(c.wrong, errors.New("the function of Driver is nil"))
		}
	})
}

func newMainConfig(options []MainOption) *mainConfig {
	c := &mainConfig{}
	for _, option := range options {
		if option == nil {
			c.wrong = append(c.wrong, errNilOption)
			continue
		}
		option.configure(c)
	}
	return c
}

// openRedis opens the program's driver, or one for url. Main closes only the latter.
func (c *mainConfig) openRedis(url string) (redis driver.Client, closeIt func(), err error) {
	if c.open != nil {
		redis, err = c.open()
		return redis, func() {}, err
	}
	ours, err := goredisdriver.Open(url) // not Open: a worker waits for a Redis that is away
	if err != nil {
		return nil, nil, err
	}
	return ours, func() { _ = ours.Close() }, nil
}

// serverOptions returns Main's own log, then the program's options, then those of the command line.
func (c *mainConfig) serverOptions(book *logbook.Book, flags *mainFlags) []ServerOption {
	options := []ServerOption{func(its *serverConfig) {
		Logbook(book)(its)
		its.relevel = nil // Main's own log has the level of the flags already
	}}
	options = append(append(options, c.server...), flags.options...)
	return append(options, func(its *serverConfig) {
		if its.relevel == nil {
			return
		}
		if flags.said["log-level"] {
			level, _ := zerolog.ParseLevel(flags.logLevel) // the flag's parser has checked it
			its.relevel(level)
		}
		if flags.said["log-format"] {
			its.wrong = append(its.wrong, errors.New("--log-format has no effect: the program has its own log (Logger, SlogHandler or Logbook); leave it out"))
		}
	})
}

// parse parses the command line. A mistake prints one line and a hint instead of package flag's list of all
// flags. It returns flag.ErrHelp after it printed the help.
func (f *mainFlags) parse(args []string) error {
	usage := f.set.Usage
	f.set.Init(f.set.Name(), flag.ContinueOnError) // flag.CommandLine would exit
	f.set.Usage = func() {}
	err := f.set.Parse(args) // which prints its error
	f.set.Usage = usage
	switch {
	case errors.Is(err, flag.ErrHelp) && usage != nil:
		usage()
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(f.set.Output(), "Usage of %s:\n", f.set.Name())
		f.set.PrintDefaults()
	case err != nil:
		_, _ = fmt.Fprintf(f.set.Output(), "see: %s -h\n", f.set.Name())
	case f.set.NArg() > 0:
		err = fmt.Errorf("unexpected arguments after the flags, from %s on: give several queues as -q a -q b", shown(f.set.Arg(0)))
		_, _ = fmt.Fprintf(f.set.Output(), "%v\nsee: %s -h\n", err, f.set.Name())
	}
	return err
}

// shown returns a word of the command line in a form that an error may show: a URL may hold a password.
func shown(word string) string {
	if strings.Contains(word, "://") {
		return "a URL"
	}
	return fmt.Sprintf("%.40q", word)
}
