package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/job"
)

// jobFlags are the flags that describe a job, beside the words CLASS [JSON-ARG]...
type jobFlags struct{ queue, retry string }

func (f *jobFlags) register(set *pflag.FlagSet, aboutQueue string) {
	set.StringVarP(&f.queue, "queue", "q", client.DefaultQueue, aboutQueue)
	set.StringVar(&f.retry, "retry", "true",
		"retries after failures: a `NUMBER`, true for the worker's default, or false for none and no copy in the dead set")
}

// read sets the fields of a job from the flags and, unless there are none, the words.
func (f *jobFlags) read(j *client.RawJob, words []string) error {
	var badQueue, badRetry, badArgs error
	if j.Queue = f.queue; f.queue == "" { // a script's variable was empty; for the client it is the default
		badQueue = usage("-q: the name of the queue is empty; leave it out for %q", client.DefaultQueue)
	}
	j.Retry, badRetry = parseRetry(f.retry)
	if len(words) > 0 {
		j.Class = unescape(words[0])
		j.ArgsJSON, badArgs = joinArgs(words[1:])
	}
	return errors.Join(badQueue, badRetry, badArgs)
}

// A due is when a job runs, by --in or --at.
type due struct {
	in time.Duration
	at string
}

func (d *due) register(set *pflag.FlagSet, what string) {
	set.DurationVar(&d.in, "in", 0, "run "+what+" after this time, such as 10s or 36h, by Redis' clock")
	set.StringVar(&d.at, "at", "", "run "+what+" at this `INSTANT`, such as 2026-12-24T18:00:00+01:00")
}

// instant returns the instant of --at, or zero without it.
func (d due) instant() (time.Time, error) {
	switch {
	case d.in != 0 && d.at != "":
		return time.Time{}, usage("--in and --at are both given: give one")
	case d.in < 0:
		return time.Time{}, usage("--in %v: it must not be negative", d.in)
	case d.at == "":
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, d.at)
	if err != nil {
		return at, usage("--at %q: it must be an instant with its zone, such as %s", d.at, time.Now().Add(time.Hour).Format(time.RFC3339))
	}
	return at, nil
}

// joinArgs joins the arguments to one JSON array.
func joinArgs(args []string) (string, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		arg = unescape(arg)
		if !json.Valid([]byte(arg)) {
			return "", usage("argument %d is not JSON; a string is quoted for JSON and for the shell: '%s'", i+1, quoted(arg))
		}
		words[i] = arg
	}
	return "[" + strings.Join(words, ",") + "]", nil
}

// quoted returns the argument as a JSON string, or an example if it is long.
func quoted(arg string) string {
	const enough = 40
	if text, err := job.Marshal(arg); err == nil && len(arg) <= enough && !strings.Contains(arg, "'") {
		return text
	}
	return `"welcome"`
}

func parseRetry(text string) (job.RetryRule, error) {
	switch text {
	case "true":
		return job.RetryRule{Kind: job.RetryDefault}, nil
	case "false":
		return job.RetryRule{Kind: job.RetryNever}, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 0 {
		return job.RetryRule{}, usage("--retry %q: it must be a number of retries, true or false", text)
	}
	return job.RetryRule{Kind: job.RetryLimit, Limit: limit}, nil
}

// escaped marks a word that the parser would take for a flag. A command line cannot contain this byte.
const escaped = "\x00"

var negative = regexp.MustCompile(`^-[0-9]`)

// escapeNegatives prepares the arguments of push for the flag parser. It marks negative numbers, because -5
// would be the flag 5, and leaves the values of flags alone. It joins --unique, which needs no value, with a
// value in the next word, as older versions required: one that is empty (which is an error) or begins like the
// two values.
func escapeNegatives(root *cobra.Command, args []string) []string {
	at := slices.Index(args, "push")
	push, _, err := root.Find([]string{"push"})
	if at < 0 || err != nil {
		return slices.Clone(args)
	}
	out := slices.Clone(args[:at+1])
	flags := true
	for i := at + 1; i < len(args); i++ {
		next, hasNext := "", i+1 < len(args)
		if hasNext {
			next = args[i+1]
		}
		switch word := args[i]; {
		case flags && word == "--unique" && hasNext && (next == "" || strings.HasPrefix(next, "until")):
			out = append(out, word+"="+next)
			i++
		case flags && takesNext(push, word) && hasNext:
			out = append(out, word, next)
			i++
		case negative.MatchString(word):
			out = append(out, escaped+word)
		default:
			flags = flags && word != "--"
			out = append(out, word)
		}
	}
	return out
}

// takesNext reports whether a word is a flag of the command whose value is the next word.
func takesNext(cmd *cobra.Command, word string) bool {
	name, long := strings.CutPrefix(word, "--")
	var flag *pflag.Flag
	switch {
	case long:
		flag = cmd.Flag(name)
	case len(word) == len("-q") && word[0] == '-':
		flag = cmd.Flags().ShorthandLookup(word[1:])
	}
	return flag != nil && flag.NoOptDefVal == ""
}

func unescape(word string) string { return strings.TrimPrefix(word, escaped) }
