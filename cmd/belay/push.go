package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay/client"
	"github.com/belayq/belay/dedup"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/launcher/service"
	"github.com/belayq/belay/lua"
)

const pushHelp = `Enqueues a job and prints its jid.

Each JSON-ARG is one argument as JSON text. Its value is kept (1.0 stays 1.0, 9007199254740993 keeps all digits) and is
written as Ruby writes it: "caf\u00e9" as "café", 1E5 as 100000.0. A number with a fraction or an exponent is a 64-bit float,
as in Ruby; put a longer decimal into a string. A string needs its own quotes inside the shell's: '"welcome"'.

With --file each line of a file (- is standard input) is one job, a JSON object:
  {"class":"WelcomeEmail","args":[42],"queue":"mail","retry":5}
Only class is required. args, queue, retry, jid, at, expires_in, retry_for, retry_queue, backtrace, dead and tags mean the
same as in Sidekiq; other fields go into the job too. -q, --retry and --expires-in are the defaults for lines without these
fields; --deadline and --track apply to all lines. A line that cannot be pushed is reported with its number, and the others are
pushed; an unreachable Redis ends the push. Files of any length are pushed while they are read. Lines from a pipe are pushed
when the pipe pauses for a tenth of a second. Standard error shows the progress every two seconds, and a summary at the end.

INT and TERM end the reading: the lines that were read are pushed, and the summary has the number of the last line. A
second signal ends the command at once. If standard output is a pipe and its reader has closed it, no more jobs are
pushed, and the summary says so.

A push whose reply is lost is repeated for --repeat-for. It is stored only once: Redis remembers its idempotency key for a day.
After the first jobs of a file, pushes are also repeated while Redis is away.

With --unique a job is refused as a duplicate while another job of its class with the same arguments holds the lock; the
printed jid is then the other job's. The push takes the lock. The lock ends when the job starts (until_executing, the
default of --unique), or when the job has ended, after all its retries (until_executed). It expires after --unique-ttl
unless it is released or renewed. With until_expired it stays for --unique-ttl, though the job has ended. Programs that
push a class unique by some Fields or UniqueBy use another key, so their jobs and those that are pushed here are never
duplicates of each other. With --file these flags apply to all lines, and duplicates are reported on standard error.
belay locks lists the locks.

With --key a job is stored once for the key, whatever its class and arguments: for --key-for after the push, or after the
time of --in or --at, another job with the same key is refused as a duplicate, though the first one has ended. In a file,
a line may have a "belay_key". belay locks find --key shows which job has a key.

With --batch the jobs join a batch (belay batches new), which counts their ends. A job that is refused is no member, and
nothing is pushed into a batch that is over. A job whose jid is pending in the batch is not stored again: a script that
gives its members a --jid, or a "jid" in each line, may repeat a push after a crash.

With --then each line of a file is a next job, a JSON object as in --file: it is enqueued when the job is done, at the back of
its own queue, in the step that ends the job's run. After any other end nothing is enqueued; if the job dies, an operator's
retry that is done enqueues the next jobs. A next job has no at, expires_in or belay_key. A line of --file or --then may have
its own next jobs, an array "belay_then". No worker of an older version of Belay may be running.

With --wal the job carries a position that a database, such as a replica, must have reached before the job reads it:
the position of the primary after all data that the job needs was written (SELECT pg_current_wal_insert_lsn()). If a
push is refused as a duplicate, the job that holds the lock gets the position. In a file, a line may have an object
"wal_locations".

With --replicas a push waits until so many replicas of Redis have it, for --replica-timeout at most. If fewer have it by
then, the job is stored all the same and the exit status is 6: a failover may lose the job, and another push would store a
second one. Redis says how many replicas have a job, not which: if no failover may lose it, give the number of all replicas.
With --file the push ends there, and the summary counts the lines that are stored.

If no living worker takes jobs from a queue, a hint on standard error names the queue at the end: its name may be
misspelled. The exit status does not change.`

const pushExample = `  belay push WelcomeEmail 42 '"welcome"' -q mail
  belay push Report '{"month":"2026-11"}' null -5 --retry 3
  belay push Reminder 42 --in 36h
  belay push Reindex 42 --unique until_executed --unique-ttl 1h
  belay push Webhook '{"id":"evt_123"}' --key stripe:evt_123 --key-for 72h
  belay push Payment 42 --replicas 2
  echo '{"class":"Report","args":["2026-11"]}' | belay push Import '"2026-11"' --then -
  belay push --file jobs.ndjson
  belay push --file rows.ndjson --batch 217d2cffc30f4a168b3a76d9
  zcat jobs.gz | belay push --file - --json`

type pushFlags struct {
	due

	retry, file string
	batch       string
	then        string
	repeatFor   time.Duration
	unique      uniqueFlags
	wal         map[string]string
	job         client.RawJob // check sets it from the command line; for a file it has the defaults
}

// A due is when a job runs, by --in or --at.
type due struct {
	in time.Duration
	at string
}

func newPush(at *redisFlags) *cobra.Command {
	var flags pushFlags
	cmd := withJSON(&cobra.Command{
		Use:     "push CLASS [JSON-ARG]...",
		Short:   "Enqueue jobs",
		Long:    pushHelp,
		Example: pushExample,
		Args:    func(cmd *cobra.Command, args []string) error { return flags.check(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			pusher, err := openPusher(at, flags.repeatFor)
			if err != nil {
				return err
			}
			defer func() { _ = pusher.Close() }()
			if cmd.Flags().Changed("batch") {
				if flags.job.Batch, err = pusher.OpenBatch(context.Background(), flags.batch); err != nil {
					return err
				}
			}
			if flags.job.Then, err = readNext(cmd, flags.then); err != nil {
				return err
			}
			service.OutliveReaders() // a broken pipe is an error in the summary
			if flags.file != "" {
				return pushFile(cmd, pusher, flags)
			}
			return pushOne(cmd, pusher, flags)
		},
	})
	set := cmd.Flags()
	set.StringVarP(&flags.job.Queue, "queue", "q", client.DefaultQueue, "queue to push to")
	set.StringVar(&flags.retry, "retry", "true",
		"retries after failures: a `NUMBER`, true for the worker's default, or false for none and no copy in the dead set")
	set.DurationVar(&flags.in, "in", 0, "run it after this time, such as 10s or 36h, by Redis' clock")
	set.StringVar(&flags.at, "at", "", "run it at this `INSTANT`, such as 2026-12-24T18:00:00+01:00; a past one means now")
	set.DurationVar(&flags.job.ExpiresIn, "expires-in", 0, "drop the job if it has not started within this time after the push, or after --in or --at")
	set.DurationVar(&flags.job.Deadline, "deadline", 0, "like --expires-in, and also end a run that is not done by then")
	set.DurationVar(&flags.job.Track, "track", 0, "keep its state and its result for this long after its end, such as 24h, for belay find")
	set.StringVar(&flags.job.JID, "jid", "", "the job's `ID`, which must be unique (default random)")
	set.StringVar(&flags.file, "file", "", "push the jobs in `FILE`, one JSON object a line; - is standard input")
	set.DurationVar(&flags.repeatFor, "repeat-for", 30*time.Second, "how long to repeat a push whose reply is lost; it is stored once")
	set.IntVar(&flags.job.Replicas, "replicas", 0, "wait until this `NUMBER` of replicas have the job (default none)")
	set.DurationVar(&flags.job.ReplicaTimeout, "replica-timeout", client.DefaultReplicaTimeout, "how long to wait for --replicas")
	flags.unique.register(set)
	set.StringVar(&flags.job.Key, "key", "", "store one job for this `KEY`, such as the id of an event; a further one is a duplicate")
	set.DurationVar(&flags.job.KeyFor, "key-for", dedup.DefaultKeyFor, "how long a key is remembered, from when the job is due")
	set.StringVar(&flags.batch, "batch", "", "make the jobs members of the batch with this `BID`: see belay batches")
	set.StringVar(&flags.then, "then", "", "enqueue the jobs in `FILE`, one JSON object a line, when the job is done; - is standard input")
	set.StringToStringVar(&flags.wal, "wal", nil,
		"the position that a database must have reached: `NAME=LSN`, such as main=16/B374D848; may be repeated")
	set.Lookup("wal").DefValue = "" // help would show []
	return cmd
}

// check checks the command line, and sets job from it.
func (f *pushFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.file != "" && len(args) > 0:
		return usage("--file gives the classes and arguments: leave them out here")
	case f.file != "" && f.job.JID != "":
		return usage("--jid is for one job: in a file each line may have a \"jid\"")
	case f.file != "" && (f.in != 0 || f.at != ""):
		return usage("--in and --at are for one job: in a file each line may have an \"at\", in seconds since 1970")
	case f.file != "" && len(f.wal) > 0:
		return usage("--wal is for one job: in a file each line may have \"wal_locations\"")
	case f.file != "" && cmd.Flags().Changed("then"):
		return usage("--then is for one job: in a file each line may have a %q", job.FieldThen)
	case f.then == "" && cmd.Flags().Changed("then"): // a script's variable was empty
		return usage("--then: the name of the file is empty; leave it out for none")
	case f.file != "" && cmd.Flags().Changed("key"):
		return usage("--key is for one job: in a file each line may have a %q", lineKey)
	case f.job.Key == "" && cmd.Flags().Changed("key"): // a script's variable was empty, and each push would be stored
		return usage("--key: the key is empty; leave it out for none")
	case f.job.Key == "" && f.file == "" && cmd.Flags().Changed("key-for"):
		return usage("--key-for requires --key or --file")
	case dedup.CheckTTL(f.job.KeyFor) != nil: // 0 too, which would be the client's default
		return usage("--key-for: %w", dedup.CheckTTL(f.job.KeyFor))
	case cmd.Flags().Changed("batch") && lua.CheckBatchID(f.batch) != nil:
		return usage("--batch: %w", lua.CheckBatchID(f.batch))
	case f.job.Queue == "": // the flag is given, but a script's variable was empty
		return usage("-q: the name of the queue is empty; leave it out for %q", client.DefaultQueue)
	case f.at == "" && cmd.Flags().Changed("at"): // likewise; the job would run now
		return usage("--at: the instant is empty; leave it out for now")
	case f.job.ExpiresIn < 0 || f.job.Deadline < 0:
		return usage("--expires-in and --deadline must not be negative")
	case cmd.Flags().Changed("track") && f.job.Track < time.Millisecond:
		return usage("--track %v: it must be at least 1ms", f.job.Track)
	case cmd.Flags().Changed("replicas") && f.job.Replicas < 1:
		return usage("--replicas %d: it must be at least 1; leave it out for none", f.job.Replicas)
	case f.job.Replicas == 0 && cmd.Flags().Changed("replica-timeout"):
		return usage("--replica-timeout requires --replicas")
	case f.job.ReplicaTimeout < time.Millisecond || f.job.ReplicaTimeout > client.MaxReplicaTimeout:
		return usage("--replica-timeout %v: it must be at least 1ms, and at most %v", f.job.ReplicaTimeout, client.MaxReplicaTimeout)
	case f.repeatFor < 0:
		return usage("--repeat-for %v: it must not be negative", f.repeatFor)
	case f.file == "" && len(args) == 0:
		return usage("give the class of the job, such as: belay push WelcomeEmail 42")
	}
	var badTime, badWAL, badRetry, badArgs error
	f.job.PushOnce, f.job.In, f.job.Unique = true, f.in, f.unique.rule()
	f.job.At, badTime = f.instant()
	f.job.Retry, badRetry = parseRetry(f.retry)
	if f.job.WAL, badWAL = dedup.ParseWAL(f.wal); badWAL != nil {
		badWAL = usage("--wal: %w", badWAL)
	}
	if f.file == "" {
		f.job.Class = unescape(args[0])
		f.job.ArgsJSON, badArgs = joinArgs(args[1:])
	}
	return cmp.Or(badTime, f.unique.check(), badWAL, badRetry, badArgs)
}

// instant returns the instant of --at, or zero without it.
func (f due) instant() (time.Time, error) {
	switch {
	case f.in != 0 && f.at != "":
		return time.Time{}, usage("--in and --at are both given: give one")
	case f.in < 0:
		return time.Time{}, usage("--in %v: it must not be negative", f.in)
	case f.at == "":
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, f.at)
	if err != nil {
		return at, usage("--at %q: it must be an instant with its zone, such as %s", f.at, time.Now().Add(time.Hour).Format(time.RFC3339))
	}
	return at, nil
}

// openPusher makes the client. The client repeats a push only for reportEvery; then persist reports and
// continues.
func openPusher(at *redisFlags, repeatFor time.Duration) (*client.Client, error) {
	if at.shard != "" {
		return nil, usage("--shard: a job goes to the shard of its keys, or to the next one; leave the flag out")
	}
	if repeatFor = min(repeatFor, reportEvery); repeatFor == 0 {
		repeatFor = -1
	}
	return at.connect(client.Config{RepeatFor: repeatFor})
}

func pushOne(cmd *cobra.Command, pusher *client.Client, flags pushFlags) error {
	ctx := context.Background()
	receipt, err := pusher.Push(ctx, flags.job)
	receipts, err := persist(ctx, cmd, pusher, flags.repeatFor, []client.Receipt{receipt}, err, false)
	receipt = receipts[0]
	if _, invalid := errors.AsType[*client.InvalidError](err); invalid {
		return statusError{err, exitUsage}
	}
	lacksReplicas := errors.Is(err, client.ErrReplicas)
	if asJSON(cmd) || err == nil || lacksReplicas {
		printReceipt(cmd, receipt, 0)
	}
	queues := hints{}
	queues.note(receipt)
	queues.print(cmd, pusher)
	if receipt.Status == client.StatusDuplicate {
		return statusError{fmt.Errorf("a duplicate of %s: nothing was pushed", receipt.Holder), exitDuplicate}
	}
	if lacksReplicas {
		return statusError{err, exitReplicas}
	}
	if receipt.Status == client.StatusUnknown {
		return fmt.Errorf("%w (its jid is %s)", err, receipt.JID)
	}
	return err
}

const (
	// reportEvery is how often an operator who waits for Redis gets a line; shorter waits are not worth one.
	reportEvery = 2 * time.Second
	// restFor is the pause between two attempts at a Redis that refuses at once.
	restFor = 200 * time.Millisecond
)

// persist repeats a failed push until it is stored or the time is up. known reports that this Redis has replied
// before: otherwise the address may be wrong, and it does not wait.
func persist(
	ctx context.Context, cmd *cobra.Command, pusher *client.Client, limit time.Duration, receipts []client.Receipt, err error, known bool,
) ([]client.Receipt, error) {
	var reported time.Time
	for end := time.Now().Add(limit); worthRepeating(err, known) && time.Until(end) > restFor; {
		time.Sleep(restFor)
		if time.Since(reported) > reportEvery {
			reported = time.Now()
			cmd.PrintErrf("repeating the push, which stores nothing twice: %s\n", oneLine(err.Error()))
		}
		limited, cancel := context.WithDeadline(ctx, end)
		receipts, err = pusher.RepeatMany(limited, receipts)
		cancel()
	}
	return receipts, err
}

// worthRepeating reports whether a failed push may still succeed, without being stored twice.
func worthRepeating(err error, known bool) bool {
	switch {
	case err == nil || errors.Is(err, client.ErrNotRepeatable) || errors.Is(err, client.ErrReplicas):
		return false
	case errors.Is(err, client.ErrUnknown):
		return true
	}
	return known && !errors.Is(err, client.ErrFull) && driver.Outage(err)
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

// printReceipt prints a receipt, or only its jid (for a duplicate the holder's jid). A line number of 0 is left
// out.
func printReceipt(cmd *cobra.Command, receipt client.Receipt, line int) {
	if !asJSON(cmd) {
		printLine(cmd, cmp.Or(receipt.Holder, receipt.JID))
		return
	}
	_ = printJSON(cmd, lineReceipt{receipt, line})
}

// A lineReceipt is the receipt of a job, and the line of the file from which it was pushed.
type lineReceipt struct {
	client.Receipt
	Line int `json:"line,omitempty"`
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

// uniqueFlags say which pushed jobs are refused as duplicates.
type uniqueFlags struct {
	set       *pflag.FlagSet
	until     string
	ttl       time.Duration
	again     bool
	scheduled bool
}

func (f *uniqueFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.until, "unique", "",
		"refuse the job while another job holds the lock; `UNTIL` is until_executing (the default without a value), until_executed or until_expired")
	set.Lookup("unique").NoOptDefVal = string(dedup.UntilExecuting)
	set.DurationVar(&f.ttl, "unique-ttl", dedup.DefaultTTL,
		"expiry of the lock, from when the job may run, unless it is released or renewed")
	set.BoolVar(&f.again, "reschedule-once", false, "with until_executed: run the job once more if a duplicate was refused after its start")
	set.BoolVar(&f.scheduled, "including-scheduled", false, "take the lock with --in and --at too")
}

func (f *uniqueFlags) check() error {
	rule := f.rule()
	if rule == nil {
		for _, name := range []string{"unique-ttl", "reschedule-once", "including-scheduled"} {
			if f.set.Changed(name) {
				return usage("--%s requires --unique", name)
			}
		}
		return nil
	}
	if f.ttl == 0 { // in a rule it means the default
		return usage("--unique-ttl: %w", dedup.CheckTTL(f.ttl))
	}
	if err := rule.Check(); err != nil {
		return usage("--unique: %w", err)
	}
	return nil
}

// rule returns the rule of the flags, or nil.
func (f *uniqueFlags) rule() *dedup.Rule {
	if !f.set.Changed("unique") {
		return nil
	}
	return &dedup.Rule{Until: dedup.Until(f.until), TTL: f.ttl, RescheduleOnce: f.again, IncludingScheduled: f.scheduled}
}
