package belay

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/retry"
)

// A Flag is one setting of a worker program that may be given on the command line and in the environment. It
// implements flag.Value, and the Value of package pflag.
type Flag struct {
	// Name is the flag's name, and Short its one-letter name, if it has one.
	Name, Short string
	// Variable is the environment variable. The variable of a List holds several values, separated by spaces.
	Variable string
	// Usage describes the flag. The name of its value is in backquotes if it has one.
	Usage string
	// List reports whether the flag may be given several times. The first value replaces those of the config.
	List bool
	// Given reports whether Set was called, as it is for a flag on the command line.
	Given bool

	kind  string
	value func() string
	set   func(value string) error
	wrong error
}

// Flags returns the flags of Main, bound to cfg: they have cfg's values, and Set changes cfg. It is for a
// program with its own command line library. The program registers the flags, sets flags that are not given
// from their variables, and joins the errors of Check.
func Flags(cfg *MainConfig) []*Flag {
	server := &cfg.Server
	return []*Flag{
		text("redis", "`URL` of Redis, also REDIS_URL (default "+defaultURL+")", &cfg.RedisURL),
		text("prefix", "prefix of every key, a colon is added (default none)", &cfg.Client.Prefix),
		queueFlag(&server.Queues),
		scalar("concurrency", "how many jobs run at once", &server.Concurrency, launcher.DefaultConcurrency, zeroIsWrong).short("c"),
		scalar("heartbeat", "heartbeat interval", &server.Heartbeat, launcher.DefaultHeartbeat, zeroIsWrong),
		scalar("ttl", "how long the worker counts as alive after a heartbeat, at least 4 heartbeats (default 4 heartbeats)",
			&server.TTL, 0, zeroIsWrong),
		pollFlag(&server.PollInterval),
		scalar("poll-wait", "how long after the start due jobs are left to other workers", &server.PollWait, 0, zeroIsZero),
		scalar("janitor", "minimum time between the two checks of a worker that seems dead (default 1 heartbeat)",
			&server.JanitorInterval, 0, zeroIsWrong),
		scalar("job-timeout", "maximum duration of a run, unless its job or its class sets one; 0 for none (default none)",
			&server.Timeout, 0, zeroIsZero),
		scalar("shutdown-timeout", "how long running jobs may go on after TERM; 0 for not at all",
			&server.ShutdownTimeout, launcher.DefaultShutdownTimeout, zeroIsNone),
		scalar("max-interruptions", "crashes of its worker after which a job is moved to the dead set, at least 2; after one crash "+
			"less it runs alone", &server.MaxInterruptions, retry.DefaultMaxInterruptions, zeroIsWrong),
		scalar("payload-limit", "maximum payload in `BYTES`, at most 2097152; a job that exceeds it by more than 65536 is moved "+
			"to the dead set", &cfg.Client.PayloadLimit, job.DefaultPayloadLimit, zeroIsWrong),
		text("name", "name to show instead of the host's", &server.Name),
		text("tag", "tag to show in Sidekiq's dashboard", &server.Tag),
		list("label", "label to show in Sidekiq's dashboard; may be repeated", func(labels []string) error {
			server.Labels = labels
			return nil
		}, func() []string { return server.Labels }),
		text("health-addr", "answer GET /healthz (alive?) and /readyz (taking jobs?) at this `ADDRESS`, such as 127.0.0.1:7421",
			&cfg.HealthAddr),
		text("metrics", "serve /metrics for Prometheus, and /healthz and /readyz, at this `ADDRESS`, such as 127.0.0.1:9090, without "+
			"authentication (default none)", &cfg.MetricsAddr),
		choice("retry-formula", "delays between retries as in Sidekiq 8.x, 6.x or 4.2.3", &server.RetryFormula, "8.x",
			map[string]RetryFormula{"8.x": retry.Sidekiq8, "6.x": retry.Sidekiq6, "4.2.3": retry.Sidekiq4}, "8.x, 6.x or 4.2.3"),
		scalar("max-retries", "retries of jobs that do not set them; 0 for none: they are moved to the dead set at once",
			&server.Retries, retry.DefaultMaxRetries, zeroIsNone),
		choice("timestamps", "how times are written into jobs: seconds (every Sidekiq reads them) or milliseconds (Sidekiq 8)",
			&cfg.Client.Unit, "seconds", map[string]job.TimeUnit{"seconds": job.Seconds, "milliseconds": job.Millis}, "seconds or milliseconds"),
		choice("log-level", "least level that is logged: debug (a line per job), info, warn or error", &cfg.LogLevel, "info",
			map[string]string{"debug": "debug", "info": "info", "warn": "warn", "error": "error"}, "debug, info, warn or error"),
		choice("log-format", "json (one object a line) or console (for people)", &cfg.LogFormat, "console",
			map[string]string{"json": "json", "console": "console"}, "json or console"),
	}
}

// String returns the value, in the form that Set reads; empty if it is a default that depends on other
// settings.
func (f *Flag) String() string {
	if f.value == nil { // package flag asks a zero Flag
		return ""
	}
	return f.value()
}

// Set reads a value. It returns an error if the value cannot be read, and describes a valid one. Check finds
// values that can be read but are invalid.
func (f *Flag) Set(value string) error {
	if err := f.set(value); err != nil {
		return err
	}
	f.Given = true
	return nil
}

// Type returns the kind of the value: "int", "duration", "string" or "strings".
func (f *Flag) Type() string { return f.kind }

// Check returns an error if the value is invalid. Set does not return it, so that a program can report all
// mistakes at once.
func (f *Flag) Check() error { return f.wrong }

// What a flag's value 0 means, which in a config stands for the default.
type zero int

const (
	zeroIsWrong zero = iota
	zeroIsZero
	zeroIsNone // written as -1
)

func newFlag(name, kind, usage string) *Flag {
	return &Flag{
		Name: name, Variable: "BELAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")), Usage: usage, kind: kind,
	}
}

func (f *Flag) short(name string) *Flag {
	f.Short = name
	return f
}

func text(name, usage string, to *string) *Flag {
	f := newFlag(name, "string", usage)
	if name == "redis" {
		f.Variable = "BELAY_REDIS_URL"
	}
	f.value = func() string { return *to }
	f.set = func(value string) error { *to = value; return nil }
	return f
}

// choice returns a flag of few values; byDefault stands for T's zero value.
func choice[T comparable](name, usage string, to *T, byDefault string, values map[string]T, allowed string) *Flag {
	f := newFlag(name, "string", usage)
	f.value = func() string {
		for text, value := range values {
			if value == *to {
				return text
			}
		}
		return byDefault
	}
	f.set = func(text string) error {
		value, ok := values[text]
		if !ok {
			return errors.New("it is " + allowed)
		}
		*to = value
		return nil
	}
	return f
}

func scalar[T int | time.Duration](name, usage string, to *T, byDefault T, zeroIs zero) *Flag {
	_, isDuration := any(byDefault).(time.Duration)
	f := newFlag(name, map[bool]string{true: "duration", false: "int"}[isDuration], usage)
	f.value = func() string {
		switch value := cmp.Or(*to, byDefault); {
		case value == 0:
			return ""
		case value < 0 && zeroIs == zeroIsNone:
			return fmt.Sprint(T(0))
		default:
			return fmt.Sprint(value)
		}
	}
	f.set = func(text string) error {
		n, err := strconv.Atoi(text)
		if isDuration {
			var d time.Duration
			d, err = time.ParseDuration(text)
			n = int(d)
		}
		switch f.wrong = nil; {
		case err != nil && isDuration:
			return errors.New("it must be a duration, such as 1500ms or 25s")
		case err != nil:
			return errors.New("it must be a whole number")
		case n == 0 && zeroIs == zeroIsWrong:
			f.wrong = fmt.Errorf("--%s 0: it must be above 0; leave it out for the default", name)
		case n < 0 && zeroIs == zeroIsNone:
			f.wrong = fmt.Errorf("--%s %v: it must not be negative", name, text)
		case n == 0 && zeroIs == zeroIsNone:
			n = -1
		}
		*to = T(n)
		return nil
	}
	return f
}

// pollFlag returns a flag for a duration or "off".
func pollFlag(to *time.Duration) *Flag {
	f := scalar("poll", "maximum time between two checks for due jobs, by one worker of the fleet; off leaves them to Ruby, if all "+
		"workers have it", to, launcher.DefaultPoll, zeroIsWrong)
	value, set := f.value, f.set
	f.value = func() string {
		if *to < 0 {
			return pollOff
		}
		return value()
	}
	f.set = func(text string) error {
		if text != pollOff {
			err := set(text)
			if *to < 0 {
				f.wrong = fmt.Errorf("--poll %v: it must be above 0, or off", text)
			}
			return err
		}
		f.wrong, *to = nil, -1
		return nil
	}
	return f
}

// pollOff is the word for a worker that promotes no due jobs.
const pollOff = "off"

// list returns a flag that may be given several times. Its variable is plural: BELAY_QUEUE is what `belay
// work` tells the programs that it runs.
func list(name, usage string, set func(all []string) error, value func() []string) *Flag {
	f := newFlag(name, "strings", usage)
	f.List = true
	f.Variable += "S"
	var all []string
	f.value = func() string { return strings.Join(value(), " ") }
	f.set = func(text string) error {
		with := append(slices.Clip(all), text)
		err := set(with)
		if err == nil {
			all = with
		}
		return err
	}
	return f
}

func queueFlag(to *[]QueueWeight) *Flag {
	return list("queue", "take from queue `NAME[,WEIGHT]`; may be repeated. Without weights in the order given, with weights at random "+
		"by them (default default)", func(specs []string) error {
		queues, err := parseQueues(specs)
		if err == nil {
			*to = queues
		}
		return err
	}, func() (specs []string) {
		for _, queue := range *to {
			spec := queue.Name
			if queue.Weight > 0 {
				spec += "," + strconv.Itoa(queue.Weight)
			}
			specs = append(specs, spec)
		}
		return specs
	}).short("q")
}

// parseQueues reads the values of --queue. White space in a name and a comma that is followed by no weight
// are errors: the user probably meant several queues, and the worker would wait for ever on one queue of that
// name.
func parseQueues(specs []string) ([]QueueWeight, error) {
	var queues []QueueWeight
	for _, spec := range specs {
		name, weight, weighted := strings.Cut(spec, ",")
		if err := job.CheckQueue(name); err != nil {
			return nil, err
		}
		if words := strings.Fields(spec); !slices.Equal(words, []string{spec}) {
			return nil, fmt.Errorf("a name with white space; for several queues give each its own: -q %s (a queue with exactly this name is possible in Go and in a configuration file)",
				strings.Join(words, " -q "))
		}
		queue := QueueWeight{Name: name}
		if weighted {
			var err error
			if queue.Weight, err = strconv.Atoi(weight); err != nil || queue.Weight < 1 {
				return nil, errors.New("it must be NAME or NAME,WEIGHT, with a weight of 1 or more; for more queues give -q again")
			}
		}
		queues = append(queues, queue)
	}
	return queues, nil
}

// readCommandLine reads the command line and then, for flags that were not given, the environment. A mistake
// on the command line prints one line and a hint instead of package flag's list of all flags. It returns
// flag.ErrHelp after it printed the help, and usageErrors for what it has not printed.
func readCommandLine(set *flag.FlagSet, args []string, lookup func(string) (string, bool), flags []*Flag) error {
	for _, f := range flags {
		set.Var(f, f.Name, f.Usage+" ["+f.Variable+"]")
		if f.Short != "" {
			set.Var(f, f.Short, "short for -"+f.Name)
		}
	}
	usage := set.Usage
	set.Init(set.Name(), flag.ContinueOnError) // flag.CommandLine would exit
	set.Usage = func() {}
	err := set.Parse(args) // which prints its error
	set.Usage = usage
	switch {
	case errors.Is(err, flag.ErrHelp) && usage != nil:
		usage()
		return err
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(set.Output(), "Usage of %s:\n", set.Name())
		set.PrintDefaults()
		return err
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("unexpected arguments after the flags, from %s on: give several queues as -q a -q b", shown(set.Arg(0)))
		_, _ = fmt.Fprintln(set.Output(), err)
	}
	if err != nil {
		_, _ = fmt.Fprintf(set.Output(), "see: %s -h\n", set.Name())
		return errPrinted
	}
	return readEnvironment(lookup, flags)
}

// errPrinted is returned for a mistake that was printed already.
var errPrinted = errors.New("wrong command line")

// readEnvironment sets the flags that were not given from their variables, and names everything that is wrong
// with any flag.
func readEnvironment(lookup func(string) (string, bool), flags []*Flag) error {
	var errs []error
	for _, f := range flags {
		value, _ := lookup(f.Variable)
		if value != "" && !f.Given {
			values := []string{value}
			if f.List {
				values = strings.Fields(value)
			}
			for _, value := range values {
				if err := f.set(value); err != nil {
					errs = append(errs, fmt.Errorf("%s=%q: %w", f.Variable, value, err))
				}
			}
		}
		errs = append(errs, f.Check())
	}
	return errors.Join(errs...)
}

// shown returns a word of the command line in a form that an error may show: a URL may hold a password.
func shown(word string) string {
	if strings.Contains(word, "://") {
		return "a URL"
	}
	return fmt.Sprintf("%.40q", word)
}
