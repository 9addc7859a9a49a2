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

// Driver has Main reach Redis by a driver of the program's own, such as one for Sentinel. Main calls open once, after all flags are
// parsed; its error ends the program with status 2. The driver is the program's to close. The flag --redis is then an error, and
// BELAY_REDIS_URL and REDIS_URL are left to open.
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

// openRedis opens the program's way to Redis, or the one to url. What the program has opened it closes itself.
func (c *mainConfig) openRedis(url string) (redis driver.Client, closeIt func(), err error) {
	if c.open != nil {
		redis, err = c.open()
		return redis, func() {}, err
	}
	ours, err := goredisdriver.Open(url) // not Open: a worker whose Redis is away waits for it
	if err != nil {
		return nil, nil, err
	}
	return ours, func() { _ = ours.Close() }, nil
}

// serverOptions are the program's, after Main's own log and before what the command line says.
func (c *mainConfig) serverOptions(book *logbook.Book, flags *mainFlags) []ServerOption {
	options := []ServerOption{func(its *serverConfig) {
		Logbook(book)(its)
		its.relevel = nil // it has the level of the flags
	}}
	options = append(append(options, c.server...), flags.options...)
	return append(options, func(its *serverConfig) {
		if its.relevel == nil {
			return
		}
		if flags.said["log-level"] {
			level, _ := zerolog.ParseLevel(flags.logLevel) // that it is one has been checked
			its.relevel(level)
		}
		if flags.said["log-format"] {
			its.wrong = append(its.wrong, errors.New("--log-format has no effect: the program has a log of its own (Logger, SlogHandler or Logbook); leave it out"))
		}
	})
}

// parse parses the command line. A mistake is one line and a hint, where package flag would print all flags. It returns
// flag.ErrHelp after the help was printed.
func (f *mainFlags) parse(args []string) error {
	usage := f.set.Usage
	f.set.Init(f.set.Name(), flag.ContinueOnError) // flag.CommandLine would end the program
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
		err = fmt.Errorf("there are words after the flags, from %s on, and none is expected: give several queues as -q a -q b", shown(f.set.Arg(0)))
		_, _ = fmt.Fprintf(f.set.Output(), "%v\nsee: %s -h\n", err, f.set.Name())
	}
	return err
}

// shown is a word of the command line as an error may show it: a URL may hold a password.
func shown(word string) string {
	if strings.Contains(word, "://") {
		return "a URL"
	}
	return fmt.Sprintf("%.40q", word)
}
