package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/retry"
)

const workHelp = `Takes jobs and runs each in a process of its own, a child of the worker.

A program gets
  on standard input   the job's args, a JSON array, byte for byte
  in its environment  BELAY_JID, BELAY_CLASS, BELAY_QUEUE, BELAY_RETRY_COUNT (failed runs so far, 0 at first),
                      BELAY_WAL_POSITIONS (a JSON object, such as {"main":"16/B374D848"}, if the job was pushed with
                      positions that its databases must have reached),
                      and the worker's own environment without BELAY_REDIS_URL and REDIS_URL
Exit status 0 is success. Any other is a failure: the job is retried, with "exit status N: " and the last 4 KiB of standard
error as its error message. Standard output is discarded; with --log-level debug its end is logged.

COMMAND is split into words as a shell splits a line (quotes and backslashes), and run directly: nothing is expanded.
Use * as CLASS for all classes without a command of their own.

When the shutdown timeout is over, or when the worker has lost the job, the program is cancelled with its whole process
group: SIGTERM, and SIGKILL 0.6 s later. The job is then requeued whatever the exit status, and no failure is counted. On
Linux a program does not outlive its worker, but processes that it started may, if the worker is killed by SIGKILL.

Signals:
  TERM, INT   take no more jobs, let running jobs finish within --shutdown-timeout, requeue the rest; a second signal ends
              the timeout at once (the same one within 200 ms does not count: GNU timeout sends two)
  TSTP, USR1  quiet: take no more jobs, but keep running
  TTIN        log the running jobs and all goroutines
  USR2        reopen --logfile
  HUP         ends the worker like SIGKILL, which is its default; it is ignored under nohup

The log never holds arguments. Logging never blocks: lines that cannot be written in time are dropped and counted.

Under systemd (Type=notify, WatchdogSec=) the worker reports when it is ready, its status, and that it is alive.

A queue name with white space is accepted only in a configuration file: on the command line it is probably two names in one
pair of quotes. At the start a warning names queues to which no job was ever pushed.

Exit status: 0 after a stop; 1 if it could not work; 2 for a wrong command line.`

const workExample = `  belay work --exec 'WelcomeEmail=./send-welcome --from "Belay <hi@example.com>"'
  belay work -q critical,3 -q default -c 50 --exec 'Report=python3 report.py' --exec '*=./any-other'
  belay work --config belay.yml --print-config
  belay work --log-format json --logfile work.log --name blue --exec 'Import=./import --verbose'`

// workFlags are the flags of a worker as they were given.
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
	flags.DurationVar(&f.heartbeat, "heartbeat", 1500*time.Millisecond, "heartbeat interval")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the worker counts as alive after a heartbeat, at least 4 heartbeats (default 4 heartbeats)")
	flags.DurationVar(&f.poll, "poll", 100*time.Millisecond, "maximum poll interval for due jobs, of one worker in the fleet")
	flags.DurationVar(&f.pollWait, "poll-wait", 0, "how long after the start only other workers promote due jobs")
	flags.DurationVar(&f.janitor, "janitor", 0, "minimum time between the two checks of a worker that seems dead (default 1 heartbeat)")
	flags.DurationVar(&f.shutdown, "shutdown-timeout", 25*time.Second, "how long running jobs may go on after TERM; 0 for not at all")
	flags.IntVar(&f.maxInterruptions, "max-interruptions", retry.DefaultMostInterruptions, "crashes allowed before the job is moved to the dead set, at least 2; at one less it is quarantined and runs alone")
	flags.IntVar(&f.payloadLimit, "payload-limit", job.DefaultPayloadLimit, "maximum payload in `BYTES`, at most 2097152; a job that exceeds it by more than 65536 is moved to the dead set")
	flags.StringVar(&f.name, "name", "", "name to show instead of the host's")
	flags.StringVar(&f.tag, "tag", "", "tag to show in Sidekiq's dashboard")
	flags.StringArrayVar(&f.labels, "label", nil, "label to show in Sidekiq's dashboard; again for more")
	flags.StringVar(&f.health, "health-addr", "", "serve GET /healthz (alive?) and /readyz (taking jobs?) at this `ADDRESS`, such as 127.0.0.1:7421")
	flags.StringVar(&f.retryFormula, "retry-formula", "8.x", "delays between retries as in Sidekiq 8.x, 6.x or 4.2.3")
	flags.IntVar(&f.maxRetries, "max-retries", retry.DefaultMaxRetries, "retries of jobs that do not set their own; 0 for none: they die at the first failure")
	flags.StringVar(&f.timestamps, "timestamps", "seconds", "unit of times in jobs: seconds (every Sidekiq reads them) or milliseconds (Sidekiq 8)")
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
		redis = struct{ driver.Client }{} // so that this mistake is reported once
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
	journal, err := openJournal(flags.log, cmd.ErrOrStderr()) // a wrong command line creates no file
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
