package belay

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/belayq/belay/fetch"
	"github.com/belayq/belay/logbook"
)

const defaultURL = "redis://127.0.0.1:6379/0"

// mainFlags are what Main may be told. What is said there becomes an option; what is not leaves those alone that the
// program gave. Names and meanings are those of `belay work`.
type mainFlags struct {
	set                 *flag.FlagSet
	redis, healthAddr   string
	logLevel, logFormat string
	queues              []fetch.Queue
	labels              []string
	variables           map[string]string // of each flag
	said                map[string]bool   // flags that were set on the command line or by their variables
	options             []ServerOption
	client              []ClientOption
}

// newMainFlags registers the flags with a set, in which the program's own may be too.
func newMainFlags(set *flag.FlagSet) *mainFlags {
	f := &mainFlags{set: set, logLevel: "info", logFormat: "console", variables: make(map[string]string), said: make(map[string]bool)}
	f.text("redis", "URL of Redis, also REDIS_URL (default "+defaultURL+")", &f.redis)
	f.add("prefix", "prefix of every key, a colon is added (default none)", func(value string) error {
		f.client = append(f.client, Prefix(value))
		return nil
	})
	f.text("health-addr", "answer /healthz and /readyz there, such as 127.0.0.1:7421", &f.healthAddr)
	f.text("log-level", "least level that is logged: debug, info, warn or error (default info)", &f.logLevel)
	f.text("log-format", "json or console (default console)", &f.logFormat)
	f.add("queue", "take from queue `NAME[,WEIGHT]`; again for more, in the variable with spaces (default default)", f.queue)
	f.add("label", "label to show in Sidekiq's dashboard; again for more, in the variable with spaces", f.label)
	f.add("name", "name to show instead of the host's", f.say(Name))
	f.add("tag", "tag to show in Sidekiq's dashboard", f.say(ProcessTag))
	f.add("concurrency", "how many jobs run at once (default 25)", f.number(Concurrency))
	f.add("max-retries", "retries of jobs that do not say; 0 for none (default 25)", f.number(maxRetries))
	f.add("max-interruptions", "crashes of its worker that a job may be in hand for (default 3)", f.number(MaxInterruptions))
	f.add("shutdown-timeout", "how long running jobs may go on after TERM (default 25s)", f.duration(ShutdownTimeout))
	f.add("heartbeat", "how often the server says that it lives (default 1.5s)", f.duration(beatEvery))
	f.add("ttl", "how long it counts as alive after a heartbeat (default 4 heartbeats)", f.duration(aliveFor))
	f.add("janitor", "least time between two looks at a worker that seems dead (default 1 heartbeat)", f.duration(JanitorEvery))
	f.add("poll", "most time between two looks for jobs that have come due (default 100ms)", f.duration(PollEvery))
	f.add("poll-wait", "how long after the start other workers are left to promote due jobs", f.duration(PollWait))
	set.Func("q", "short for -queue", f.queue)
	set.Func("c", "short for -concurrency", f.number(Concurrency))
	return f
}

// lists are the flags that may be given again and again, with the names of their variables, which are plural: BELAY_QUEUE
// is what `belay work` tells the programs that it runs.
var lists = map[string]string{"queue": "BELAY_QUEUES", "label": "BELAY_LABELS"}

// add makes a flag and its variable.
func (f *mainFlags) add(name, usage string, read func(value string) error) {
	variable := cmp.Or(lists[name], "BELAY_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	if name == "redis" {
		variable = "BELAY_REDIS_URL"
	}
	f.variables[name] = variable
	f.set.Func(name, usage+" ["+variable+"]", func(value string) error {
		f.said[name] = true
		return read(value)
	})
}

func (f *mainFlags) text(name, usage string, to *string) {
	f.add(name, usage, func(value string) error { *to = value; return nil })
}

func (f *mainFlags) say(option func(string) ServerOption) func(string) error {
	return func(value string) error {
		f.options = append(f.options, option(value))
		return nil
	}
}

func (f *mainFlags) number(option func(int) ServerOption) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return errors.New("it is a whole number")
		}
		f.options = append(f.options, option(n))
		return nil
	}
}

func (f *mainFlags) duration(option func(time.Duration) ServerOption) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("it is a duration, such as 1500ms or 25s")
		}
		f.options = append(f.options, option(d))
		return nil
	}
}

// queue adds a queue to those that stand instead of the program's.
func (f *mainFlags) queue(value string) error {
	if words := strings.Fields(value); len(words) > 1 || len(words) == 1 && words[0] != value {
		return fmt.Errorf("a name with white space; for several queues give each its own: -q %s (use Queues for a queue of exactly this name)",
			strings.Join(words, " -q "))
	}
	name, text, weighted := strings.Cut(value, ",")
	weight := 0
	if weighted {
		var err error
		if weight, err = strconv.Atoi(text); err != nil || weight < 1 {
			return errors.New("it is NAME or NAME,WEIGHT with a weight of 1 or more")
		}
	}
	f.queues = append(f.queues, fetch.Queue{Name: name, Weight: weight})
	f.options = append(f.options, func(c *serverConfig) { c.Queues = f.queues })
	return nil
}

func (f *mainFlags) label(value string) error {
	f.labels = append(f.labels, value)
	f.options = append(f.options, ProcessLabels(f.labels...))
	return nil
}

func beatEvery(d time.Duration) ServerOption {
	return func(c *serverConfig) { c.Beat = d; c.refuseZero("the heartbeat", d) }
}

func aliveFor(d time.Duration) ServerOption {
	return func(c *serverConfig) { c.TTL = d; c.refuseZero("the ttl", d) }
}

func maxRetries(n int) ServerOption {
	return func(c *serverConfig) {
		switch c.Retry.MaxRetries = n; {
		case n == 0:
			c.Retry.MaxRetries = -1 // none; a Policy's 0 is its default
		case n < 0:
			c.wrong = append(c.wrong, fmt.Errorf("max retries %d: it is not negative", n))
		}
	}
}

// readEnvironment lets the variables of those flags speak that were not given, and names all that is wrong with any.
func (f *mainFlags) readEnvironment(lookup func(string) (string, bool)) error {
	given := make(map[string]bool)
	f.set.Visit(func(one *flag.Flag) { given[one.Name] = true })
	given["queue"] = given["queue"] || given["q"]
	given["concurrency"] = given["concurrency"] || given["c"]
	var wrong []error
	for name, variable := range f.variables {
		value, _ := lookup(variable)
		if value == "" || given[name] {
			continue
		}
		values := []string{value}
		if lists[name] != "" {
			values = strings.Fields(value)
		}
		for _, value := range values {
			if err := f.set.Lookup(name).Value.Set(value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s=%q: %w", variable, value, err))
			}
		}
	}
	return errors.Join(wrong...)
}

// redisURL is the URL to use. It may hold a password: it is not for people.
func (f *mainFlags) redisURL(lookup func(string) (string, bool)) string {
	fallback, _ := lookup("REDIS_URL")
	return cmp.Or(f.redis, fallback, defaultURL)
}

func (f *mainFlags) logbook(out io.Writer) (*logbook.Book, error) {
	level, err := zerolog.ParseLevel(f.logLevel)
	if err != nil || f.logLevel == "" {
		return nil, fmt.Errorf("log level %q: it is debug, info, warn or error", f.logLevel)
	}
	switch f.logFormat {
	case "json":
	case "console":
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.RFC3339}
	default:
		return nil, fmt.Errorf("log format %q: it is json or console", f.logFormat)
	}
	return logbook.ToWriter(out, level), nil
}
