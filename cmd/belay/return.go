package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

const returnHelp = `Returns jobs to plain queues, for a fleet that leaves Belay (--to-ruby): Sidekiq's workers take them from there. You can
interrupt it at any moment, even with kill -9, and run it again: each job moves in one step.

It returns the jobs that only workers of Belay could recover: jobs that dead processes of Belay hold go to the heads of
their queues, quarantined jobs and those that wait for limits to the backs. Sidekiq reads the jobs in queues, schedule, retry and dead as they are. Stop all
workers of Belay first: while one is alive, the command refuses and names it; a killed worker counts as alive until its TTL
has passed. The command takes some seconds, or the longest TTL of the dead processes. Unique jobs keep their locks until
these expire, because Sidekiq releases none: belay locks shows them. Periodic jobs of Belay are not enqueued any more.` + deadLimitsHelp

// errFromGitLab is the error of --from-gitlab, which scripts may still use.
var errFromGitLab = errors.New("--from-gitlab is a command of its own, belay-gitlab in contrib/gitlab: " +
	"https://github.com/belayq/belay/blob/main/docs/ruby.md#gitlabs-reliable-fetch says how to build it")

// newReturn makes the command for the way back to Sidekiq.
func newReturn(at *redisFlags) *cobra.Command {
	var toRuby bool
	var payloadLimit int
	var timeout time.Duration
	var dead deadLimits
	cmd := withJSON(&cobra.Command{
		Use:     "return --to-ruby",
		Short:   "Return jobs of dead processes of Belay to plain queues, for Sidekiq's workers",
		Long:    returnHelp,
		Example: "  belay processes stop --all --yes\n  belay return --to-ruby",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || !toRuby {
				return usage("give --to-ruby, for a fleet that has no workers of Belay any more")
			}
			return dead.check()
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			ctx, stop := untilSignal()
			defer stop()
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			log := slog.New(logbook.Lines(cmd.ErrOrStderr(), logbook.FormatConsole, slog.LevelInfo))
			returned, err := dead.of(i).Return(limited, payloadLimit, log)
			_ = show(cmd, returned, func(t *table) {
				t.row(fmt.Sprintf("%d recovered, %d of them moved to the dead set", returned.Recovered, returned.Dead))
				t.row(fmt.Sprintf("%d taken out of quarantine", returned.Quarantined))
				t.row(fmt.Sprintf("%d had been waiting for limits", returned.Waiting))
			})
			if err != nil { // a signal explains it
				err = cmp.Or(context.Cause(ctx), err)
			}
			return err
		}),
	})
	set := cmd.Flags()
	set.BoolVar(&toRuby, "to-ruby", false, "none of Belay's workers will be started again")
	set.IntVar(&payloadLimit, "payload-limit", job.DefaultPayloadLimit, "the --payload-limit of the workers, in `BYTES`: larger jobs go to the dead set")
	dead.register(set)
	set.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to try")
	set.BoolFunc("from-gitlab", "refused: see belay-gitlab", func(string) error { return errFromGitLab })
	_ = set.MarkHidden("from-gitlab")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, errFromGitLab) {
			return usage("%w", errFromGitLab)
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	return cmd
}
