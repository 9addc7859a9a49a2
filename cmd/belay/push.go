package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	words     jobFlags
	due       due
	file      string
	batch     string
	then      string
	wal       map[string]string
	repeatFor time.Duration
	unique    dedup.Rule
	job       client.RawJob // check sets it from the command line; for a file it has the defaults
}

// A flagRule has the checks of belay push on a flag that is given. Package client checks the values of the job.
type flagRule struct {
	inLine string   // for one job only: in a file, what a line may have instead
	none   string   // the error about one that is empty or 0, as by a script's variable; it may be if this is ""
	needs  []string // one of these flags
}

var pushRules = map[string]flagRule{
	"jid":                 {inLine: `a "jid"`},
	"in":                  {inLine: `an "at", in seconds since 1970`},
	"at":                  {inLine: `an "at", in seconds since 1970`, none: "the instant is %s; leave it out for now"},
	"wal":                 {inLine: `"wal_locations"`},
	"then":                {inLine: "a " + strconv.Quote(job.FieldThen), none: "the name of the file is %s; leave it out for none"},
	"key":                 {inLine: "a " + strconv.Quote(lineKey), none: "the key is %s; leave it out for none"},
	"key-for":             {needs: []string{"key", "file"}},
	"track":               {none: "the time is %s; leave it out for none"},
	"replicas":            {none: "the number is %s; leave it out for none"},
	"replica-timeout":     {none: "the time is %s; it must be at least 1ms", needs: []string{"replicas"}},
	"unique-ttl":          {needs: []string{"unique"}},
	"reschedule-once":     {needs: []string{"unique"}},
	"including-scheduled": {needs: []string{"unique"}},
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
	flags.words.register(set, "queue to push to")
	flags.due.register(set, "it")
	set.Lookup("at").Usage += "; a past one means now"
	set.DurationVar(&flags.job.ExpiresIn, "expires-in", 0, "drop the job if it has not started within this time after the push, or after --in or --at")
	set.DurationVar(&flags.job.Deadline, "deadline", 0, "like --expires-in, and also end a run that is not done by then")
	set.DurationVar(&flags.job.Track, "track", 0, "keep its state and its result for this long after its end, such as 24h, for belay find")
	set.StringVar(&flags.job.JID, "jid", "", "the job's `ID`, which must be unique (default random)")
	set.StringVar(&flags.file, "file", "", "push the jobs in `FILE`, one JSON object a line; - is standard input")
	set.DurationVar(&flags.repeatFor, "repeat-for", 30*time.Second, "how long to repeat a push whose reply is lost; it is stored once")
	set.IntVar(&flags.job.Replicas, "replicas", 0, "wait until this `NUMBER` of replicas have the job (default none)")
	set.DurationVar(&flags.job.ReplicaTimeout, "replica-timeout", client.DefaultReplicaTimeout, "how long to wait for --replicas")
	set.StringVar((*string)(&flags.unique.Until), "unique", "",
		"refuse the job while another job holds the lock; `UNTIL` is until_executing (the default without a value), until_executed or until_expired")
	set.Lookup("unique").NoOptDefVal = string(dedup.UntilExecuting)
	set.DurationVar(&flags.unique.TTL, "unique-ttl", dedup.DefaultTTL,
		"expiry of the lock, from when the job may run, unless it is released or renewed")
	set.BoolVar(&flags.unique.RescheduleOnce, "reschedule-once", false,
		"with until_executed: run the job once more if a duplicate was refused after its start")
	set.BoolVar(&flags.unique.IncludingScheduled, "including-scheduled", false, "take the lock with --in and --at too")
	set.StringVar(&flags.job.Key, "key", "", "store one job for this `KEY`, such as the id of an event; a further one is a duplicate")
	set.DurationVar(&flags.job.KeyFor, "key-for", dedup.DefaultKeyFor, "how long a key is remembered, from when the job is due")
	set.StringVar(&flags.batch, "batch", "", "make the jobs members of the batch with this `BID`: see belay batches")
	set.StringVar(&flags.then, "then", "", "enqueue the jobs in `FILE`, one JSON object a line, when the job is done; - is standard input")
	set.StringToStringVar(&flags.wal, "wal", nil,
		"the position that a database must have reached: `NAME=LSN`, such as main=16/B374D848; may be repeated")
	set.Lookup("wal").DefValue = "" // help would show []
	return cmd
}

// check checks the command line, and sets job from it. It returns all mistakes; those in values of the job are
// found by package client, once there are no others.
func (f *pushFlags) check(cmd *cobra.Command, words []string) error {
	set := cmd.Flags()
	errs := f.misused(set)
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, usage(format, args...))
		}
	}
	wrong(f.file != "" && len(words) > 0, "--file gives the classes and arguments: leave them out here")
	wrong(f.file == "" && len(words) == 0, "give the class of the job, such as: belay push WelcomeEmail 42")
	wrong(f.repeatFor < 0, "--repeat-for %v: it must not be negative", f.repeatFor)
	badBatch := lua.CheckBatchID(f.batch)
	wrong(set.Changed("batch") && badBatch != nil, "--batch: %w", badBatch)
	var badTime, badWAL error
	f.job.PushOnce, f.job.In = true, f.due.in
	f.job.At, badTime = f.due.instant()
	f.job.WAL, badWAL = dedup.ParseWAL(f.wal)
	wrong(badWAL != nil, "--wal: %w", badWAL)
	badKeyFor := dedup.CheckTTL(f.job.KeyFor) // 0 too, which would be the client's default; a line may have the key
	wrong(badKeyFor != nil, "--key-for: %w", badKeyFor)
	if set.Changed("unique") {
		f.job.Unique = &f.unique
		badRule := cmp.Or(f.unique.Check(), dedup.CheckTTL(f.unique.TTL)) // 0 likewise
		wrong(badRule != nil, "--unique: %w", badRule)
	}
	errs = append(errs, badTime, f.words.read(&f.job, words))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j := f.job
	if f.file != "" {
		j.Class = "Any" // each line has its own
	}
	if err := j.Check(); err != nil {
		return usage("%w", err)
	}
	return nil
}

// zeros are the values 0 of flags, as they are printed, by the type of the flag; of text it is the empty one.
var zeros = map[string]string{"int": "0", "duration": "0s"}

// misused returns what is wrong by pushRules.
func (f *pushFlags) misused(set *pflag.FlagSet) (errs []error) {
	set.Visit(func(flag *pflag.Flag) {
		rule, value := pushRules[flag.Name], flag.Value.String()
		switch {
		case f.file != "" && rule.inLine != "" && value != flag.DefValue:
			errs = append(errs, usage("--%s is for one job: in a file each line may have %s", flag.Name, rule.inLine))
		case rule.none != "" && value == zeros[flag.Value.Type()]:
			errs = append(errs, usage("--%s: "+rule.none, flag.Name, cmp.Or(value, "empty")))
		case len(rule.needs) > 0 && !slices.ContainsFunc(rule.needs, set.Changed):
			errs = append(errs, usage("--%s requires --%s", flag.Name, strings.Join(rule.needs, " or --")))
		}
	})
	return errs
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
	return known && driver.Away(err)
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
