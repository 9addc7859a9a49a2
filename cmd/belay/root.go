package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/inspect"
)

// The exit statuses, which the root's help explains.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitDuplicate = 3
	exitAbsent    = 4
	exitUnseen    = 5
	exitReplicas  = 6
	exitSignal    = 128 // and the number of the signal
)

const rootHelp = `Belay runs background jobs on Redis, in Sidekiq's wire format. A worker that dies, even by kill -9,
loses no job.

Exit status, of every command:
  0  success
  1  failure; standard error says in one line what to do
  2  the command line is wrong
  3  a push was refused as a duplicate
  4  the job, queue, process or lock does not exist, or not any more (belay find: 1)
  5  belay find or belay cancel did not find a job, and its search was incomplete
  6  belay push stored its jobs, but on fewer replicas than --replicas
  130 or 143  INT or TERM ended the command before it was done

With shards (?shards=N in the URL) a command works on one shard after the other: its lines begin with the name of the shard, its
JSON objects have it as the field shard, and --limit counts for each. A shard that fails is an error at the end. status, find,
cancel, top, web and work see all shards as one, and periodic uses the first bound one.

The URL of Redis is --redis, or BELAY_REDIS_URL, or REDIS_URL, or ` + defaultURL + `.
Without --client and --prefix, BELAY_CLIENT and BELAY_PREFIX are used.`

const rootExample = `  belay demo                                   watch workers being killed without losing a job; needs no Redis
  belay work -q mail,2 -q default --exec 'WelcomeEmail=./send-welcome'
  belay push WelcomeEmail 42 '"welcome"' -q mail
  belay status
  belay top                                    the same in the whole terminal, live
  belay find 217d2cffc30f4a168b3a76d9          where is it?
  belay list dead --group                      what dies, and of which errors?
  belay dead retry --class WelcomeEmail        run dead jobs again
  belay queues pause mail
  belay check                                  is this Redis fit for Belay?`

// newRoot makes the root command with all commands below it.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "belay COMMAND",
		Short:             "Background jobs on Redis that survive kill -9",
		Long:              rootHelp,
		Example:           rootExample,
		SilenceErrors:     true, // run prints them in one line
		SilenceUsage:      true, // a page of flags hides the line that matters
		Args:              noWords,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return readEverywhere(cmd.Flags()) },
	}
	// Not by cobra's Version: it prints by a template of its own, and belay version prints this line too.
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return show(cmd, nil, printVersion)
		}
		return cmd.Help()
	}
	at := &redisFlags{}
	at.register(root.PersistentFlags())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%s", hideURLs(err.Error())) })
	root.AddCommand(newDemo(at), newDemoWorker(at), newWork(at), newPush(at), newStatus(at), newTop(at), newCheck(at), newVersion(),
		newFindJob(at), newListPlace(at), newCancel(at), newMove(at), newReturn(at), newQueues(at), newProcesses(at), newLocks(at), newBatches(at), newLimits(at), newWeb(at), newClasses(at), newPeriodic(at), newShards(at))
	root.AddCommand(newSets(at)...)
	describe(root)
	completeAll(at, root)
	return root
}

// readEverywhere reads from the environment what all commands must agree on: a worker with one prefix takes
// no job that was pushed with another.
func readEverywhere(flags *pflag.FlagSet) error {
	return cmp.Or(readVariable(flags, "client"), readVariable(flags, "prefix"))
}

// waitKey is the key of the setting that belay web has too.
const waitKey = "wait_for_redis"

// readVariable sets the flag of a setting from the environment, if it was not given.
func readVariable(flags *pflag.FlagSet, key string) error {
	s, _ := settingOf(key)
	if text := os.Getenv(s.variable); text != "" && !flags.Changed(s.flag) {
		if err := flags.Lookup(s.flag).Value.Set(text); err != nil {
			return usage("%s: %w", s.variable, err)
		}
	}
	return nil
}

// run runs a command line and returns the exit status.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(escapeNegatives(root, args))
	root.SetIn(in)
	kept := &output{Writer: out}
	root.SetOut(kept)
	root.SetErr(errs)
	cmd, err := root.ExecuteC()
	if lost := kept.failure(); lost != nil && !errors.Is(err, errors.Unwrap(lost)) {
		_, _ = fmt.Fprintf(errs, "%s: %s\n", cmd.CommandPath(), oneLine(lost.Error()))
		if err == nil {
			return exitFailure
		}
	}
	if err == nil {
		return exitOK
	}
	status, hint := exitFailure, advice(err)
	if own, is := errors.AsType[statusError](err); is {
		status = own.status
	} else if errors.Is(err, inspect.ErrNoPeriodic) {
		status = exitAbsent
	}
	if status == exitUsage {
		hint = fmt.Sprintf(" (see: %s --help)", cmd.CommandPath())
	}
	_, _ = fmt.Fprintf(errs, "%s: %s%s\n", cmd.CommandPath(), oneLine(hidePasswords(err.Error())), hint)
	return status
}

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

// noArgs refuses arguments. It does not repeat them: one may be a URL with a password.
var noArgs = advised("it takes no arguments, only flags", cobra.NoArgs)

// someArgs requires at least one argument.
func someArgs(advice string) cobra.PositionalArgs { return advised(advice, cobra.MinimumNArgs(1)) }

// oneArg requires one argument that is not empty.
func oneArg(advice string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("%s", advice)
		}
		return nil
	}
}

// advised replaces the error of a check by advice.
func advised(advice string, check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return usage("%s", advice)
		}
		return nil
	}
}

// noWords refuses a word in the place of a command below this one.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	word := hideURLs(args[0])
	if cmd.HasParent() {
		word = cmd.CommandPath() + " " + word
	}
	cmd.SuggestionsMinimumDistance = 2 // letters; cobra sets its default in other places only
	return usage("there is no command %q%s", word, didYouMean(cmd.SuggestionsFor(args[0])))
}

// urlLike matches text that may be a URL with a password in the wrong place.
var urlLike = regexp.MustCompile(`\S*(://|@)\S*`)

func hideURLs(text string) string { return urlLike.ReplaceAllString(text, "(hidden)") }

// userinfo matches the place of the password in a URL. The rest of the URL may be what the error is about: a
// file's name, or an argument without its quotes.
var userinfo = regexp.MustCompile(`://\S*@`)

func hidePasswords(text string) string { return userinfo.ReplaceAllString(text, "://(hidden)@") }

// oneLine converts an error, which may have a line for each problem, to one line of plain text.
func oneLine(text string) string {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "\n", "; "), "belay: ")
	return plain(text)
}

// advice returns what to do about a Redis that is unreachable or denies access.
func advice(err error) string {
	if denial := driver.Denial(err); denial != "" {
		said := strings.Contains(err.Error(), denial)
		return word(!said, ": "+denial) + word(driver.Outage(err), " ("+whereTheURLIs+")")
	}
	if _, refused := errors.AsType[*driver.ServerError](err); refused {
		return ""
	}
	if _, unsent := errors.AsType[*driver.NotSentError](err); unsent && driver.Outage(err) {
		return ": is Redis running there? " + whereTheURLIs
	}
	return ""
}

const whereTheURLIs = "The URL is --redis, BELAY_REDIS_URL or REDIS_URL"

func newVersion() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `Prints the version of belay, the version of Go it was built with, and the platform.`,
		Example: "  belay version\n  belay version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result := map[string]string{"version": belay.Version, "go": runtime.Version(), "platform": platform()}
			return show(cmd, result, printVersion)
		},
	})
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// printVersion prints the output of belay version and belay --version.
func printVersion(t *table) {
	t.row(fmt.Sprintf("belay %s %s %s", belay.Version, runtime.Version(), platform()))
}
