package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

const workHelp = `Takes jobs and runs each as a process of its own, which is a child of the worker.

A program gets
  on standard input   the job's args, a JSON array, byte for byte
  in its environment  BELAY_JID, BELAY_CLASS, BELAY_QUEUE, BELAY_RETRY_COUNT (failed runs so far, 0 at first),
                      BELAY_WAL_POSITIONS (a JSON object, such as {"main":"16/B374D848"}, of a job that was pushed with
                      positions: how far the databases must have come that it reads),
                      and the worker's own environment without BELAY_REDIS_URL and REDIS_URL
Exit status 0 is success. Any other is a failure: the job is tried again later, with "exit status N: " and the last
4 KiB of standard error as its error message. Standard output is thrown away, unless --log-level debug logs its end.

COMMAND is split into words as a shell splits a line (quotes and backslashes), and run directly: nothing is expanded.
Give CLASS as * for all classes that have no command of their own.

A program is cancelled with its whole process group, by SIGTERM and 0.6 s later SIGKILL, when the shutdown timeout is
over or the worker has lost the job; whatever it then exits with, the job is handed back and nothing is counted. It does
not outlive its worker (Linux), but what it has started itself may, when the worker is killed by SIGKILL.

Signals:
  TERM, INT   take nothing more, let running jobs finish within --shutdown-timeout, hand back the rest; a second one
              ends the timeout at once (not the same one within 200 ms: GNU timeout sends two)
  TSTP, USR1  quiet: take nothing more, and live on
  TTIN        write the running jobs and all goroutines to the log
  USR2        open --logfile anew
  HUP         ends the worker like SIGKILL, as its default is: under nohup it is ignored

The log never holds arguments, and nothing waits for its reader: lines that cannot be written in time are dropped and
counted.

Under systemd (Type=notify, WatchdogSec=) the worker says when it is ready and how it is, and pings while it lives.

A queue name with white space is accepted only in a configuration file: on the command line it is probably two names in one
pair of quotes. At the start a warning names the queues to which no job was ever pushed.

Exit status: 0 after a stop; 1 when it could not work; 2 for a wrong command line.`

const workExample = `  belay work --exec 'WelcomeEmail=./send-welcome --from "Belay <hi@example.com>"'
  belay work -q critical,3 -q default -c 50 --exec 'Report=python3 report.py' --exec '*=./any-other'
  belay work --config belay.yml --print-config
  belay work --log-format json --logfile work.log --name blue --exec 'Import=./import --verbose'`

// workFlags are what a worker may be told, before it is understood.
type workFlags struct {
	set                                 *pflag.FlagSet
	queues, programs                    []string
	concurrency, maxRetries             int
	heartbeat, ttl, janitor, shutdown   time.Duration
	maxInterruptions, payloadLimit      int
	poll, pollWait                      time.Duration
	name, tag, retryFormula, timestamps string
	labels                              []string
	health                              string
	log                                 logFlags
	conf                                config
}

func newWork(at *redisFlags) *cobra.Command {
	var flags workFlags
	cmd := &cobra.Command{
		Use:     "work --exec CLASS=COMMAND...",
		Short:   "Run jobs with programs as handlers",
		Long:    workHelp + describeConfig(),
		Example: workExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return work(cmd, at, &flags) },
	}
	flags.register(cmd.Flags())
	return cmd
}

func (f *workFlags) register(flags *pflag.FlagSet) {
	f.set = flags
	flags.StringArrayVarP(&f.queues, "queue", "q", nil, "take from queue `NAME[,WEIGHT]`; again for more. Without weights in the order given, with weights at random by them (default \"default\")")
	flags.StringArrayVar(&f.programs, "exec", nil, "run jobs of a class with a program: `CLASS=COMMAND`; again for more")
	flags.IntVarP(&f.concurrency, "concurrency", "c", 25, "how many jobs run at once")
	flags.DurationVar(&f.heartbeat, "heartbeat", 1500*time.Millisecond, "how often the worker says that it lives")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the worker counts as alive after a heartbeat, at least 4 heartbeats (default 4 heartbeats)")
	flags.DurationVar(&f.poll, "poll", 100*time.Millisecond, "most time between two looks for jobs that have come due, by one worker of all")
	flags.DurationVar(&f.pollWait, "poll-wait", 0, "how long after the start other workers are left to promote due jobs")
	flags.DurationVar(&f.janitor, "janitor", 0, "least time between the two looks at a worker that seems dead (default 1 heartbeat)")
	flags.DurationVar(&f.shutdown, "shutdown-timeout", 25*time.Second, "how long running jobs may go on after TERM; 0 for not at all")
	flags.IntVar(&f.maxInterruptions, "max-interruptions", retry.DefaultMostInterruptions, "crashes of its worker that a job may be in hand for, at least 2; after one less it runs alone, and a crash then buries it")
	flags.IntVar(&f.payloadLimit, "payload-limit", job.DefaultPayloadLimit, "maximum payload in `BYTES`, at most 2097152; a job that exceeds it by more than 65536 is moved to the dead set")
	flags.StringVar(&f.name, "name", "", "name to show instead of the host's")
	flags.StringVar(&f.tag, "tag", "", "tag to show in Sidekiq's dashboard")
	flags.StringArrayVar(&f.labels, "label", nil, "label to show in Sidekiq's dashboard; again for more")
	flags.StringVar(&f.health, "health-addr", "", "answer GET /healthz (alive?) and /readyz (taking jobs?) at this `ADDRESS`, such as 127.0.0.1:7421")
	flags.StringVar(&f.retryFormula, "retry-formula", "8.x", "delays between retries as in Sidekiq 8.x, 6.x or 4.2.3")
	flags.IntVar(&f.maxRetries, "max-retries", retry.DefaultMaxRetries, "retries of jobs that do not say; 0 for none: they die at once")
	flags.StringVar(&f.timestamps, "timestamps", "seconds", "how times are written into jobs: seconds (every Sidekiq reads them) or milliseconds (Sidekiq 8)")
	f.log.register(flags)
	f.conf.register(flags)
}

// work runs a worker from its command line to its end.
func work(cmd *cobra.Command, at *redisFlags, flags *workFlags) error {
	badWords := checkQueueWords(flags.queues)
	exposed := hideEnvironment(urlVariables)
	badSettings := flags.conf.settle(cmd.Flags())
	cfg, badFlags := flags.config()
	programs, badPrograms := parsePrograms(flags.programs)
	if flags.conf.print && len(flags.programs) == 0 {
		badPrograms = nil
	}
	redis, badRedis := at.open()
	if badRedis == nil {
		defer func() { _ = redis.Close() }()
	} else {
		redis = struct{ driver.Client }{} // so that nobody complains of it a second time
	}
	cfg.Client, cfg.Prefix = redis, at.prefix
	client, badClient := belay.NewClient(redis, clientConfig(cfg))
	about, badCapsules := serverConfig(cfg, flags.conf.capsules)
	bad := errors.Join(badWords, badSettings, badFlags, badPrograms, badRedis, badClient, badCapsules)
	if badClient == nil {
		_, badServer := belay.NewServer(client, about)
		bad = errors.Join(bad, errors.Unwrap(badServer))
	}
	if bad != nil {
		return usageError{flags.conf.tell(bad)}
	}
	if flags.conf.remark != "" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), oneLine(flags.conf.remark))
	}
	if flags.conf.print {
		return flags.conf.write(cmd.OutOrStdout(), cmd.Flags())
	}
	journal, err := openJournal(flags.log, cmd.ErrOrStderr()) // for a command line that cannot be meant no file is made
	if err != nil {
		return err
	}
	defer journal.close()
	for _, note := range flags.conf.notes {
		journal.Logger.Info().Msg(note)
	}
	about.Logger = journal.book.Slog()
	server, err := belay.NewServer(client, about)
	if err != nil {
		return err
	}
	runner := newRunner(journal.Logger)
	runner.environ = withoutSystemd(runner.environ)
	defer runner.spawner.close()
	for _, p := range programs {
		if p.class == "*" {
			server.HandleUnknown(runner.handler(p))
		} else {
			server.HandleRaw(p.class, runner.handler(p))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, secret := hiddenURL(at.address()); secret && exposed != nil {
		journal.Warn().Err(exposed).Msg("programs can read the Redis URL of this worker in /proc")
	}
	runner.spawner.reapOrphans(ctx.Done())
	return belay.Process{Server: server, HealthAddr: flags.health, Reopen: journal.reopen}.Run(ctx)
}

// withoutSystemd is the environment without what concerns the worker alone: its programs are not the service.
func withoutSystemd(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "NOTIFY_SOCKET" || name == "WATCHDOG_USEC" || name == "WATCHDOG_PID"
	})
}
