package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/job"
)

const pushHelp = `Enqueues a job and prints its jid.

Each JSON-ARG is one argument as JSON text. Its value is kept (1.0 stays 1.0, 9007199254740993 loses nothing) and is written
as Ruby writes it: "caf\u00e9" as "café", 1E5 as 100000.0. A number with a fraction or an exponent is a 64-bit float, as in
Ruby; put a longer decimal into a string. A string needs its quotes, and those need the shell's: '"welcome"'.

With --file each line of a file (- is standard input) is one job, a JSON object:
  {"class":"WelcomeEmail","args":[42],"queue":"mail","retry":5}
class must be there. args, queue, retry, jid, at, retry_for, retry_queue, backtrace, dead and tags mean what they mean
in Sidekiq; other fields go into the job too. -q and --retry are for lines that do not say. A line that cannot be
pushed is reported with its number, and the others are pushed; a Redis that cannot be reached ends it. Files of any
length are read as they are pushed. What comes through a pipe is pushed when the pipe pauses for a tenth of a second. How far it
has come is said on standard error every two seconds, and at the end what became of them.

INT and TERM end the reading: what has been read is pushed, the end is told, with the number of the last line. A second one ends
it where it stands. When nobody reads its standard output any more, nothing more is pushed, and the end is told as well.

A push whose answer is lost is repeated for --repeat-for, and is stored once all the same: Redis remembers its number for a
day. So is what comes after the first jobs of a file while Redis is away.

With --unique a job is refused, as a duplicate, while another of its class with the same arguments holds the lock that both
need; the jid that is printed is that one's. The lock is taken with the push. It ends when the job starts (until_executing, which
--unique alone means too), or when the job has ended, through all its retries (until_executed), and after --unique-ttl at the
latest. Programs that push a class with UniqueByFields or UniqueBy use another key, so their jobs and the jobs that are pushed
here are never duplicates of each other. With --file these flags apply to all lines, and duplicates are reported on standard error. belay locks
shows locks.

With --wal the job knows how far a database must have come that it reads, such as its replica: where the primary stood when all was
written that the job needs (SELECT pg_current_wal_insert_lsn()). Of a push that is refused as a duplicate, the job that has the
lock learns it. In a file a line may have "wal_locations", an object.

With --json a receipt is printed instead of a jid, one JSON object a line:
  {"jid","queue","status"}, of a duplicate also "holder", with --file also "line"
status is queued, scheduled, duplicate (holder is the jid of the job that has the lock), unknown (no answer in all that time:
Redis may or may not have the job) or not_pushed.

If no living worker takes jobs from a queue, a hint on standard error names it at the end: its name may be misspelled. The
exit status does not change.

Exit status: 0 when all was enqueued; 1 when something was not, or may not have been; 2 for a wrong command line; 3 when nothing
went wrong and a duplicate was refused; 130 or 143 when INT or TERM ended the reading of a file before its end.`

const pushExample = `  belay push WelcomeEmail 42 '"welcome"' -q mail
  belay push Report '{"month":"2026-11"}' null -5 --retry 3
  belay push Reminder 42 --in 36h
  belay push Reindex 42 --unique until_executed --unique-ttl 1h
  belay push --file jobs.ndjson
  zcat jobs.gz | belay push --file - --json`

// pushFlags are what may be said about jobs that are pushed.
type pushFlags struct {
	queue, retry, jid, file, at string
	in, repeatFor               time.Duration
	asJSON                      bool
	unique                      uniqueFlags
	wal                         map[string]string
}

func newPush(at *redisFlags) *cobra.Command {
	var flags pushFlags
	cmd := &cobra.Command{
		Use:     "push CLASS [JSON-ARG]...",
		Short:   "Enqueue jobs",
		Long:    pushHelp,
		Example: pushExample,
		Args:    func(cmd *cobra.Command, args []string) error { return flags.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := parseRetry(flags.retry)
			if err != nil {
				return err
			}
			pusher, err := openPusher(at, flags.repeatFor)
			if err != nil {
				return err
			}
			defer func() { _ = pusher.Close() }()
			defer surviveBrokenPipes()()
			if flags.file != "" {
				return pushFile(cmd, pusher, flags, rule)
			}
			return pushOne(cmd, pusher, flags, rule, args)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&flags.queue, "queue", "q", client.DefaultQueue, "queue to push to")
	set.StringVar(&flags.retry, "retry", "true", "retries when it fails: a `NUMBER`, true for the worker's default, false for none and not kept")
	set.DurationVar(&flags.in, "in", 0, "run it so long from now, such as 10s or 36h, by Redis' clock")
	set.StringVar(&flags.at, "at", "", "run it at this `INSTANT`, such as 2026-12-24T18:00:00+01:00; one that is past is now")
	set.StringVar(&flags.jid, "jid", "", "the job's `ID`, which you answer for being unique (default drawn)")
	set.StringVar(&flags.file, "file", "", "push the jobs in `FILE`, one JSON object a line; - is standard input")
	set.DurationVar(&flags.repeatFor, "repeat-for", 30*time.Second, "how long to repeat a push whose answer is lost; it is stored once")
	flags.unique.register(set)
	set.StringToStringVar(&flags.wal, "wal", nil, "a database must have come so far that the job reads: `NAME=LSN`, such as main=16/B374D848; may be repeated")
	set.BoolVar(&flags.asJSON, "json", false, "print receipts as JSON, one a line")
	return cmd
}

func (f *pushFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.file != "" && len(args) > 0:
		return usage("--file has the classes and arguments of its jobs: give no others")
	case f.file != "" && f.jid != "":
		return usage("--jid is for one job: in a file each line may have a \"jid\"")
	case f.file != "" && (f.in != 0 || f.at != ""):
		return usage("--in and --at are for one job: in a file each line may have an \"at\", in seconds since 1970")
	case f.file != "" && len(f.wal) > 0:
		return usage("--wal is for one job: in a file each line may have \"wal_locations\"")
	case f.queue == "": // not left out, then: a script's variable was empty
		return usage("-q: the name of the queue is empty; leave it out for %q", client.DefaultQueue)
	case f.at == "" && cmd.Flags().Changed("at"): // likewise, or the job would run now
		return usage("--at: the instant is empty; leave it out for now")
	case f.repeatFor < 0:
		return usage("--repeat-for %v: it is not negative", f.repeatFor)
	case f.file == "" && len(args) == 0:
		return usage("give the class of the job, such as: belay push WelcomeEmail 42")
	}
	_, err := f.until()
	_, badWAL := dedup.ParseWAL(f.wal)
	if badWAL != nil {
		badWAL = usage("--wal: %w", badWAL)
	}
	return cmp.Or(err, f.unique.check(), badWAL)
}

// until is the instant of --at; zero without it.
func (f *pushFlags) until() (time.Time, error) {
	switch {
	case f.in != 0 && f.at != "":
		return time.Time{}, usage("--in and --at are both given: give one")
	case f.in < 0:
		return time.Time{}, usage("--in %v: it is not negative", f.in)
	case f.at == "":
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, f.at)
	if err != nil {
		return at, usage("--at %q: it is an instant with its zone, such as %s", f.at, time.Now().Add(time.Hour).Format(time.RFC3339))
	}
	return at, nil
}

// openPusher makes the client that pushes. It repeats for the shorter one of repeatFor and sayEvery, after which the operator
// is told and persist goes on.
func openPusher(at *redisFlags, repeatFor time.Duration) (*client.Client, error) {
	redis, err := at.open()
	if err != nil {
		return nil, err
	}
	if repeatFor = min(repeatFor, sayEvery); repeatFor == 0 {
		repeatFor = -1
	}
	pusher, err := client.New(redis, client.Config{Prefix: at.prefix, RepeatFor: repeatFor})
	if err != nil {
		_ = redis.Close()
		return nil, err
	}
	return pusher, nil
}

func pushOne(cmd *cobra.Command, pusher *client.Client, flags pushFlags, rule job.RetryRule, args []string) error {
	argsJSON, err := joinArgs(args[1:])
	if err != nil {
		return err
	}
	at, err := flags.until()
	if err != nil {
		return err
	}
	wal, err := dedup.ParseWAL(flags.wal)
	if err != nil {
		return err
	}
	ctx := context.Background()
	receipt, err := pusher.Push(ctx, client.RawJob{
		Class: unshield(args[0]), ArgsJSON: argsJSON, Queue: flags.queue, JID: flags.jid, Retry: rule, In: flags.in, At: at, PushOnce: true,
		Unique: flags.unique.rule(), WAL: wal,
	})
	again := persistence{pusher: pusher, most: flags.repeatFor, errs: cmd.ErrOrStderr()}
	receipts, err := again.persist(ctx, []client.Receipt{receipt}, err, false)
	receipt = receipts[0]
	var invalid *client.InvalidError
	if errors.As(err, &invalid) {
		return usageError{err}
	}
	if flags.asJSON || err == nil {
		printReceipt(cmd.OutOrStdout(), flags.asJSON, receipt, 0)
	}
	queues := hints{}
	queues.note(receipt)
	queues.tell(pusher, cmd.ErrOrStderr())
	if receipt.Status == client.StatusDuplicate {
		return duplicateError{fmt.Errorf("a duplicate of %s: nothing was pushed", receipt.Holder)}
	}
	if receipt.Status == client.StatusUnknown {
		return fmt.Errorf("%w (its jid is %s)", err, receipt.JID)
	}
	return err
}

// joinArgs makes one array of the arguments.
func joinArgs(args []string) (string, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		arg = unshield(arg)
		if !json.Valid([]byte(arg)) {
			return "", usage("argument %d is not JSON; a string is quoted for JSON and for the shell: '%s'", i+1, quoted(arg))
		}
		words[i] = arg
	}
	return "[" + strings.Join(words, ",") + "]", nil
}

// quoted is what the argument would be as a string, a short example if it is long.
func quoted(arg string) string {
	const enough = 40
	if text, err := job.Marshal(arg); err == nil && len(arg) <= enough && !strings.Contains(arg, "'") {
		return text
	}
	return `"welcome"`
}

// printReceipt prints one receipt, or only its jid, which of a duplicate is the holder's. A line of 0 is none.
func printReceipt(out io.Writer, asJSON bool, receipt client.Receipt, line int) {
	if !asJSON {
		_, _ = fmt.Fprintln(out, plain(cmp.Or(receipt.Holder, receipt.JID)))
		return
	}
	_ = printJSON(out, struct {
		client.Receipt
		Line int `json:"line,omitempty"`
	}{receipt, line})
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
		return job.RetryRule{}, usage("--retry %q: it is a number of retries, true or false", text)
	}
	return job.RetryRule{Kind: job.RetryLimit, Limit: limit}, nil
}

// shielded stands before a word that would be taken for a flag. No word that a program is given can hold it.
const shielded = "\x00"

var negative = regexp.MustCompile(`^-[0-9]`)

// joinUnique allows --unique without a value, and still accepts a value as a separate word, as older versions
// required. The next word is the value if it is empty (which is an error) or begins like the two values.
func joinUnique(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if out = append(out, args[i]); args[i] != "--unique" || i+1 == len(args) {
			continue
		}
		if next := args[i+1]; next == "" || strings.HasPrefix(next, "until") {
			out[len(out)-1] += "=" + next
			i++
		}
	}
	return out
}

// shieldNegatives lets negative numbers be arguments of push: to whoever reads flags, -5 is the flag 5. What a flag takes for its
// value is no argument, and is left to it.
func shieldNegatives(root *cobra.Command, args []string) []string {
	at := slices.Index(args, "push")
	push, _, err := root.Find([]string{"push"})
	if at < 0 || err != nil {
		return slices.Clone(args)
	}
	args = append(slices.Clone(args[:at]), joinUnique(args[at:])...)
	out := slices.Clone(args)
	flags := true
	for i := at + 1; i < len(args); i++ {
		switch {
		case flags && args[i] == "--":
			flags = false
		case flags && takesNext(push, args[i]):
			i++
		case negative.MatchString(args[i]):
			out[i] = shielded + args[i]
		}
	}
	return out
}

// takesNext says whether a word is a flag of the command whose value is the next word.
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

func unshield(word string) string { return strings.TrimPrefix(word, shielded) }
