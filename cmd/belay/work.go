package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belayq/belay"
	"github.com/belayq/belay/driver"
	"github.com/belayq/belay/launcher"
	"github.com/belayq/belay/launcher/flagset"
	"github.com/belayq/belay/metrics"
)

const workHelp = `Takes jobs and runs each in a process of its own, a child of the worker.

A program gets
  on standard input   the job's args, a JSON array, byte for byte
  in its environment  BELAY_JID, BELAY_CLASS, BELAY_QUEUE, BELAY_RETRY_COUNT (failed runs so far, 0 at first),
                      BELAY_WAL_POSITIONS (a JSON object, such as {"main":"16/B374D848"}, if the job was pushed with
                      positions that its databases must have reached),
                      BELAY_BATCH (the id of the batch of which the job is a member or a callback; see belay batches),
                      BELAY_AFTER (the jid of the job that this one follows; see belay push --then),
                      BELAY_CURSOR_FILE, BELAY_RESULT_FILE (see below),
                      and the worker's own environment without BELAY_REDIS_URL and REDIS_URL
Exit status 0 is success. Any other is a failure: the job is retried, with "exit status N: " and the last 4 KiB of standard
error as its error message. Standard output is discarded; with --log-level debug its end is logged.

A long job continues where its last run ended if its program leaves a cursor, such as the last id that is done:
  BELAY_CURSOR_FILE   is empty in the first run; later it has the last cursor. The program writes a new one now and then, a
                      JSON value of at most 64 KiB. The worker stores it: every few seconds, so that little is repeated
                      after a crash, and when the program ends. An empty file changes nothing; null removes the cursor.
                      When the worker begins to stop, a program that has left a cursor gets SIGTERM at once, and the job is
                      requeued. A cursor of many lines is written to "$BELAY_CURSOR_FILE.new" and renamed.
  BELAY_RESULT_FILE   what the program leaves in it, a JSON value of at most 64 KiB, is the job's result if the exit status
                      is 0 and the job is tracked (belay push --track). belay find JID and Wait in Go return it.
The files are in TMPDIR (/tmp) and end with the run.

COMMAND is split into words as a shell splits a line (quotes and backslashes), and run directly: nothing is expanded.
Use * as CLASS for all classes without a command of their own.

A run may take --job-timeout (default: no limit), or the timeout of its class: --exec 'Report,timeout=30s=./report'. The
timeout that a job was pushed with goes before both. When it is over, the program is ended with its whole process group:
SIGTERM, and SIGKILL 0.6 s later. The run has then failed, whatever the exit status.

A class may have a limit, which holds among all workers that have it: --limit 'Webhook=tenants,concurrency=5,key=0'
  concurrency=N          at most N jobs run at once in the fleet
  window=N/TIME          at most N start in any span of TIME, such as 100/1m; N is at most 1000
  leaky=N/TIME           N start at once, and then one in each Nth part of TIME
  key=ARG                these count for each value of the argument at this position, 0 for the first, such as a tenant
A job that may not start yet waits in Redis, and occupies no worker. Give a limited class a queue of its own. Give the limit
a name of 1 to 64 letters, digits, dashes and underscores: limits of one name are one limit, and two classes may have one.

When the shutdown timeout is over, or when the worker has lost the job, the program is ended in the same way. The job is
then requeued whatever the exit status, and no failure is counted. On
Linux a program does not outlive its worker, but processes that it started may, if the worker is killed by SIGKILL.

Signals:
  TERM, INT   take no more jobs, let running jobs finish within --shutdown-timeout, requeue the rest; a second signal ends
              the timeout at once (the same one within 200 ms does not count: GNU timeout sends two)
  TSTP, USR1  quiet: take no more jobs, but keep running
  TTIN        log the running jobs and all goroutines
  USR2        reopen --logfile
  HUP         is not handled: it ends the worker like SIGKILL; under nohup it is ignored

The log is for people if it goes to a terminal, and JSON otherwise; --log-format chooses. It never contains arguments. A line
about a failed run has the exit status and, on a terminal, the program's error message, which may repeat arguments; it is
always stored with the job (belay retries, belay dead). Logging never blocks: lines that cannot be written in time are dropped
and counted.

Under systemd (Type=notify, WatchdogSec=) the worker reports when it is ready, its status, and that it is alive.

A queue name with white space is accepted only in a configuration file: on the command line it is probably two names in one
pair of quotes. At the start a warning names queues to which no job was ever pushed.`

const workExample = `  belay work --exec 'WelcomeEmail=./send-welcome --from "Belay <hi@example.com>"'
  belay work -q critical,3 -q default -c 50 --exec 'Report=python3 report.py' --exec '*=./any-other'
  belay work --config belay.yml --print-config
  belay work --log-format json --logfile work.log --name blue --exec 'Import=./import --verbose'`

// workFlags are the flags of a worker: those of belay.Main, and a few of its own.
type workFlags struct {
	main     belay.MainConfig
	shared   []*flagset.Flag
	wrong    []error // mistakes in values of shared flags
	programs []string
	limits   []string
	logfile  string
	conf     config
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
	f.shared = f.main.Flags()
	for _, flag := range f.shared {
		if flag.Name != "redis" && flag.Name != "prefix" { // flags of all commands
			shown := flags.VarPF(collecting{flag, &f.wrong}, flag.Name, flag.Short, flag.Usage)
			if flag.IsBoolFlag() {
				shown.NoOptDefVal = "true"
			}
		}
	}
	flags.StringArrayVar(&f.programs, "exec", nil,
		"run jobs of a class with a program: `CLASS=COMMAND`, or CLASS,timeout=30s=COMMAND; may be repeated")
	flags.StringArrayVar(&f.limits, "limit", nil,
		"limit a class of --exec: `CLASS=NAME,concurrency=N,window=N/TIME,leaky=N/TIME,key=ARG`; may be repeated")
	flags.StringVar(&f.logfile, "logfile", "", "append the log to this `FILE`, created with mode 0600; USR2 reopens it (default standard error)")
	f.conf.register(flags)
}

// A collecting flag keeps its errors instead of returning them, so that all mistakes are reported at once.
type collecting struct {
	*flagset.Flag
	wrong *[]error
}

// Set implements pflag.Value.
func (c collecting) Set(value string) error {
	if err := c.Flag.Set(value); err != nil {
		*c.wrong = append(*c.wrong, fmt.Errorf("--%s %q: %w", c.Name, value, err))
	}
	return nil
}

// check returns all mistakes in the flags.
func (f *workFlags) check() error {
	errs := f.wrong
	for _, flag := range f.shared {
		errs = append(errs, flag.Check())
	}
	return errors.Join(errs...)
}

// work runs a worker from its command line to its end.
func work(cmd *cobra.Command, at *redisFlags, flags *workFlags) error {
	exposed := hideEnvironment(urlVariables)
	badSettings := flags.conf.settle(cmd.Flags(), &flags.main.Server)
	badFlags := flags.check()
	programs, badPrograms := parsePrograms(flags.programs)
	if flags.conf.print && len(flags.programs) == 0 {
		badPrograms = nil
	}
	limits, badLimits := parseLimits(flags.limits, programs)
	cfg := flags.main
	client, badClient := at.connect(cfg.Client)
	if badClient == nil {
		defer func() { _ = client.Close() }()
	} else { // the other settings are checked all the same
		none := struct{ driver.Client }{}
		if _, badConfig := belay.NewClient(none, &cfg.Client); badConfig != nil && badConfig.Error() != errors.Unwrap(badClient).Error() {
			badClient = errors.Join(badClient, badConfig)
		}
		client, _ = belay.NewClient(none, &belay.ClientConfig{})
	}
	_, badServer := belay.NewServer(client, cfg.Server)
	bad := errors.Join(badSettings, badFlags, badPrograms, badLimits, badClient, errors.Unwrap(badServer))
	if at.shard != "" {
		bad = errors.Join(bad, errors.New("--shard: a worker serves all shards of the URL; leave the flag out"))
	}
	if bad != nil {
		return statusError{flags.conf.tell(bad), exitUsage}
	}
	if flags.conf.remark != "" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), oneLine(flags.conf.remark))
	}
	if flags.conf.print {
		return flags.conf.write(cmd.OutOrStdout(), cmd.Flags(), cfg.Server)
	}
	logs := logFlags{level: cmp.Or(cfg.LogLevel, "info"), format: cfg.LogFormat, path: flags.logfile}
	if !logs.toTerminal(cmd.ErrOrStderr()) {
		cfg.Server.RedactError = withoutOutput
	}
	journal, err := openJournal(logs, cmd.ErrOrStderr()) // a wrong command line creates no file
	if err != nil {
		return err
	}
	defer journal.close()
	for _, note := range flags.conf.notes {
		journal.Logger.Info(note)
	}
	cfg.Server.Logger = journal.Logger
	server, err := belay.NewServer(client, cfg.Server)
	if err != nil {
		return err
	}
	runner := newRunner(journal.Logger, newSpawner(true))
	defer runner.spawner.close()
	if runner.space, err = openWorkspace(); err != nil {
		journal.Warn("programs have no BELAY_CURSOR_FILE and BELAY_RESULT_FILE",
			"error", err, "advice", "set TMPDIR to a directory that the worker can write")
	}
	defer runner.space.close()
	for _, p := range programs {
		var options []belay.DefineOption
		if p.timeout > 0 {
			options = append(options, belay.Timeout(p.timeout))
		}
		if spec, limited := limits[p.class]; limited {
			options = append(options, spec.option())
		}
		if p.class == launcher.AnyClass {
			server.HandleUnknown(runner.handler(p), options...)
		} else {
			server.HandleRaw(p.class, runner.handler(p), options...)
		}
	}
	if _, secret := hiddenURL(at.address()); secret && exposed != nil {
		journal.Warn("programs can read the Redis URL of this worker in /proc", "error", exposed)
	}
	cfg.Process.Metrics, cfg.Process.Reopen = metrics.ForServer, journal.reopen
	return server.RunProcess(context.Background(), cfg.Process)
}
