// Command belay-gitlab moves the jobs of dead Ruby processes that used GitLab's reliable fetch back to their
// queues.
//
// Its names and exit statuses are a contract: scripts rely on them. It must never print the password of a
// Redis URL or log a job's arguments, and text from Redis must never control the terminal.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/belayq/belay/contrib/gitlab"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/driver/goredisdriver"
	"github.com/belayq/belay/driver/rueidisdriver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/logbook"
	"github.com/belayq/belay/lua"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // and the number of the signal
)

const help = `Moves the jobs of dead Ruby processes that used GitLab's reliable fetch (sidekiq-reliable-fetch) back to their
queues, for a fleet that leaves Ruby. You can interrupt it at any moment, even with kill -9, and run it again: each job moves
in one step.

These processes keep the jobs that they run in lists named working:queue:*, and only a living Ruby process recovers the jobs
of a dead one. This command recovers them instead. It is safe while processes of both languages run: jobs go to the heads of
their queues, and interrupted_count goes up by one. Processes with a heartbeat keep their jobs. The heartbeat of a killed
process expires after a minute: run the command after that, or run it again. It prints how many jobs it has left. It waits
for --doubt, so that a process that could not reach Redis does not lose its jobs.
--dry-run shows the lists. The command reads the names of all keys with SCAN. A job that is interrupted for the third time
(--interruptions) goes to the dead set. (GitLab would put it into a set named interrupted, which Belay does not read.)

When the dead set is full, new jobs replace its oldest ones. If you have set DeadLimit or DeadFor for the workers, pass the
same values as --dead-limit and --dead-for.

The URL of Redis is --redis, or BELAY_REDIS_URL, or REDIS_URL, or ` + defaultURL + `.
Without --client and --prefix, BELAY_CLIENT and BELAY_PREFIX are used.

Exit status: 0; 1 if Redis cannot be reached, or if jobs of dead processes are left after --timeout; 2 for a wrong command
line; 130 or 143 if INT or TERM ended it.

Usage:
  belay-gitlab [FLAGS]

Flags:
`

const defaultURL = "redis://127.0.0.1:6379/0"

// clients are the constructors of the Redis clients that --client names.
var clients = map[string]func(url string, options ...driver.Option) (driver.Client, error){
	"go-redis": func(url string, options ...driver.Option) (driver.Client, error) {
		return goredisdriver.Open(url, options...)
	},
	"rueidis": func(url string, options ...driver.Option) (driver.Client, error) {
		return rueidisdriver.Open(url, options...)
	},
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs a command line and returns the exit status.
func run(args []string, out, errs io.Writer) int {
	err := execute(args, out, errs)
	if err == nil {
		return exitOK
	}
	status, hint := exitFailure, ""
	if own, is := errors.AsType[statusError](err); is {
		status = own.status
	}
	_, unsent := errors.AsType[*driver.NotSentError](err)
	switch {
	case status == exitUsage:
		hint = " (see: belay-gitlab --help)"
	case unsent:
		hint = ": is Redis running there? The URL is --redis, BELAY_REDIS_URL or REDIS_URL"
	}
	text := strings.ReplaceAll(userinfo.ReplaceAllString(err.Error(), "://(hidden)@"), "\n", "; ")
	_, _ = fmt.Fprintf(errs, "belay-gitlab: %s%s\n", logbook.Plain(text), hint)
	return status
}

// userinfo matches the place of the password in a URL.
var userinfo = regexp.MustCompile(`://\S*@`)

// A statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// usage returns an error about the command line.
func usage(format string, args ...any) error {
	return statusError{fmt.Errorf(format, args...), exitUsage}
}

// options has the values of the flags.
type options struct {
	gitlab.Config
	url, client  string
	dryRun, json bool
	timeout      time.Duration
}

func execute(args []string, out, errs io.Writer) error {
	o, err := parse(args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.Client, err = clients[o.client](o.url, driver.ForPrefix(o.Prefix)); err != nil {
		return statusError{err, exitUsage}
	}
	defer func() { _ = o.Client.Close() }()
	ctx, stop := service.UntilSignal(interruption)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, o.timeout+o.Doubt)
	defer cancel()
	if o.dryRun {
		err = o.look(limited, out)
	} else {
		err = o.recover(limited, out, errs)
	}
	if err != nil { // after a signal, the signal is the reason
		err = cmp.Or(context.Cause(ctx), err)
	}
	return err
}

// parse reads the command line and the environment. For --help it prints the help and returns pflag.ErrHelp.
func parse(args []string, out io.Writer) (o options, err error) {
	set := pflag.NewFlagSet("belay-gitlab", pflag.ContinueOnError)
	set.Usage = func() { _, _ = fmt.Fprint(out, help, set.FlagUsages()) }
	set.BoolVar(&o.dryRun, "dry-run", false, "only show these processes' lists; change nothing")
	set.DurationVar(&o.Doubt, "doubt", gitlab.Lifespan, "how long to wait for a heartbeat of a process that has none; living ones send one every 20s")
	set.IntVar(&o.Interruptions, "interruptions", gitlab.Interruptions, "interruptions after which a job goes to the dead set, as Ruby's max_retries_after_interruption; -1: it never does")
	set.IntVar(&o.PayloadLimit, "payload-limit", job.DefaultPayloadLimit, "the --payload-limit of the workers, in `BYTES`: larger jobs go to the dead set")
	set.IntVar(&o.DeadLimits.Limit, "dead-limit", lua.DefaultDeadLimit, "the DeadLimit of the workers: this many `JOBS` may stay in the dead set")
	set.DurationVar(&o.DeadLimits.For, "dead-for", lua.DefaultDeadFor, "the DeadFor of the workers: a job may stay in the dead set for this time")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to try; --doubt is added")
	set.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	// The environment is not a default of the flag: help shows defaults, and a URL may hold a password.
	set.StringVar(&o.url, "redis", "", "Redis `URL`: redis[s]://[user:password@]host[:port][/db], unix:///path?db=N, "+
		"redis[s]+sentinel://host1,host2,host3/NAME (default "+defaultURL+")")
	set.StringVar(&o.client, "client", "go-redis", "Redis client to use: go-redis or rueidis")
	set.StringVar(&o.Prefix, "prefix", "", "prefix of every key, a colon is added (default none)")
	if err := set.Parse(args); err != nil {
		return o, statusError{err, exitUsage}
	}
	for name, variable := range map[string]string{"client": "BELAY_CLIENT", "prefix": "BELAY_PREFIX"} {
		if text := os.Getenv(variable); text != "" && !set.Changed(name) {
			_ = set.Set(name, text) // it cannot fail: any string is valid
		}
	}
	_, known := clients[o.client]
	switch {
	case set.NArg() > 0: // the error does not quote it: it may be a URL with a password
		return o, usage("it takes no arguments, only flags")
	case set.Changed("redis") && o.url == "": // a variable of a script was probably empty
		return o, usage("--redis: the URL is empty; leave it out for BELAY_REDIS_URL, REDIS_URL or %s", defaultURL)
	case !known:
		return o, usage("--client %q: it must be go-redis or rueidis", o.client)
	case o.Doubt < 0:
		return o, usage("--doubt %v: it must not be negative", o.Doubt)
	case o.Interruptions == 0:
		return o, usage("--interruptions 0: it must be at least 1, or -1")
	case o.DeadLimits.Limit < 1 || o.DeadLimits.For < time.Second:
		return o, usage("--dead-limit %d and --dead-for %v: they must be at least 1 and 1s", o.DeadLimits.Limit, o.DeadLimits.For)
	}
	o.url = cmp.Or(o.url, os.Getenv("BELAY_REDIS_URL"), os.Getenv("REDIS_URL"), defaultURL)
	return o, nil
}

// look prints the lists of GitLab's reliable fetch.
func (o options) look(ctx context.Context, out io.Writer) error {
	look, err := gitlab.Look(ctx, o.Config)
	if err != nil {
		return err
	}
	rows := [][]string{{"QUEUE", "PROCESS", "STATE", "JOBS"}}
	for _, list := range look.Lists {
		rows = append(rows, []string{cmp.Or(list.Queue, list.Key), list.Process, string(list.State), fmt.Sprint(list.Jobs)})
	}
	return o.show(out, look, append(rows,
		[]string{fmt.Sprintf("%d jobs would be returned", look.Jobs)},
		[]string{fmt.Sprintf("%d in GitLab's set of interrupted jobs", look.Interrupted)}))
}

// recover recovers the lists of dead processes.
func (o options) recover(ctx context.Context, out, errs io.Writer) error {
	o.Log = slog.New(slog.NewTextHandler(errs, nil))
	o.Found = func(look gitlab.Lists) {
		if look.Jobs > 0 {
			_, _ = fmt.Fprintf(errs, "%d jobs of processes without a heartbeat; waiting %v for heartbeats\n", look.Jobs, o.Doubt)
		}
	}
	cfg := o.Config
	if cfg.Doubt == 0 { // the user says so, and in a Config it would be the default
		cfg.Doubt = -1
	}
	result, err := gitlab.Return(ctx, cfg)
	showErr := o.show(out, result, [][]string{
		{fmt.Sprintf("%d recovered, %d of them moved to the dead set", result.Recovered, result.Dead)},
		{fmt.Sprintf("lists: %d emptied, %d of living processes, %d unclear", result.Lists, result.Alive, result.Unclear)},
		{fmt.Sprintf("%d in GitLab's set of interrupted jobs", result.Interrupted)},
	})
	if result.Held > 0 {
		_, _ = fmt.Fprintf(errs, "%d jobs are left to processes with a heartbeat. That of a killed process expires within %v: run this again then\n",
			result.Held, gitlab.Lifespan)
	}
	return cmp.Or(err, showErr)
}

// show prints a result: as one JSON object with --json, otherwise as a table. Names in it come from any program
// that can write to Redis, so no character of them may control a terminal.
func (o options) show(out io.Writer, result any, rows [][]string) error {
	var err error
	if o.json {
		var text []byte
		if text, err = json.Marshal(result); err == nil {
			_, err = out.Write(append(logbook.EscapeJSON(text), '\n'))
		}
	} else {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			for i, cell := range row {
				row[i] = logbook.Plain(cell)
			}
			_, _ = fmt.Fprintln(table, strings.Join(row, "\t"))
		}
		err = table.Flush()
	}
	if err != nil {
		return fmt.Errorf("the output cannot be written: %w", err)
	}
	return nil
}

// interruption returns the error of a command that a signal ended, with the exit status that a shell reports.
func interruption(by os.Signal) error {
	number, _ := by.(syscall.Signal)
	return statusError{fmt.Errorf("interrupted by a signal (%v)", by), exitSignal + int(number)}
}
