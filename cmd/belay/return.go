package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayq/belay/inspect"
	"github.com/belayq/belay/janitor"
	"github.com/belayq/belay/job"
	"github.com/belayq/belay/logbook"
)

const returnHelp = `Puts jobs that dead processes hold back into plain queues. You can interrupt it at any moment, even with kill -9, and
run it again: each job moves in one step.

--to-ruby is for a fleet that leaves Belay. It returns the jobs that only workers of Belay could recover to plain queues,
from which Sidekiq's workers take them: jobs that dead processes of Belay hold go to the heads of their queues, quarantined
jobs to the backs. Sidekiq reads the jobs in queues, schedule, retry and dead as they are. Stop all workers of Belay first:
while one is alive, the command refuses and names it; a killed worker counts as alive until its TTL has passed. The command
takes some seconds, or the longest TTL of the dead processes. Unique jobs keep their locks until these expire, because
Sidekiq releases none: belay locks shows them. Periodic jobs of Belay are not enqueued any more.

--from-gitlab is for a fleet that leaves Ruby with GitLab's reliable fetch (sidekiq-reliable-fetch). Its processes keep the
jobs that they run in lists named working:queue:*, and only a living Ruby process recovers the jobs of a dead one. This
command recovers them instead, and is safe while processes of both languages run: jobs go to the heads of their queues, and
interrupted_count goes up by one. Processes with a heartbeat keep their jobs. The heartbeat of a killed process expires
after a minute, so run the command then, or again: it says how many jobs it has left. It waits for --doubt, so that a
process that could not reach Redis does not lose its jobs.
--dry-run shows the lists. The command reads the names of all keys with SCAN. A job that is interrupted for the third time
(--interruptions) goes to the dead set. (GitLab would put it into a set named interrupted, which Belay does not read.)` + deadLimitsHelp + `

Exit status: 0; 1 if a worker of Belay is alive (--to-ruby), if Redis cannot be reached, or if jobs of dead processes are
left after --timeout; 2 for a wrong command line; 130 or 143 if INT or TERM ended it.`

// newReturn makes the command for the way back to Sidekiq.
func newReturn(at *redisFlags) *cobra.Command {
	var toRuby, fromGitLab, dryRun bool
	of := inspect.FromGitLab{}
	var timeout time.Duration
	var dead deadLimits
	cmd := withJSON(&cobra.Command{
		Use:     "return --to-ruby | --from-gitlab",
		Short:   "Return jobs of dead processes of Belay, or of GitLab's reliable fetch, to plain queues",
		Long:    returnHelp,
		Example: "  belay processes stop --all --yes\n  belay return --to-ruby\n  belay return --from-gitlab --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 || toRuby == fromGitLab {
				return usage("give --to-ruby, for a fleet that has no workers of Belay any more, or --from-gitlab, for jobs that dead Ruby processes hold")
			}
			for _, name := range []string{"dry-run", "doubt", "interruptions"} {
				if toRuby && cmd.Flags().Changed(name) {
					return usage("--%s is for --from-gitlab only", name)
				}
			}
			if of.Doubt < 0 {
				return usage("--doubt %v: it must not be negative", of.Doubt)
			}
			if of.Interruptions == 0 {
				return usage("--interruptions 0: it must be at least 1, or -1")
			}
			return dead.check()
		},
		RunE: withInspector(at, func(cmd *cobra.Command, i *inspect.Inspector, _ []string) error {
			i = dead.of(i)
			ctx, stop := untilSignal()
			defer stop()
			if fromGitLab {
				timeout += of.Doubt
			}
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			of.Log = slog.New(logbook.JSON(console(cmd.ErrOrStderr()), slog.LevelInfo))
			var err error
			switch {
			case toRuby:
				err = returnToRuby(limited, cmd, i, of.PayloadLimit, of.Log)
			case dryRun:
				err = lookAtGitLab(limited, cmd, i)
			default:
				err = returnFromGitLab(limited, cmd, i, of)
			}
			if err != nil { // a signal explains it
				err = cmp.Or(context.Cause(ctx), err)
			}
			return err
		}),
	}, "print the result as one JSON object")
	set := cmd.Flags()
	set.BoolVar(&toRuby, "to-ruby", false, "return jobs of Belay: none of its workers will be started again")
	set.BoolVar(&fromGitLab, "from-gitlab", false, "return jobs of dead Ruby processes with GitLab's reliable fetch")
	set.BoolVar(&dryRun, "dry-run", false, "only show these processes' lists; change nothing")
	set.DurationVar(&of.Doubt, "doubt", janitor.GitLabLifespan, "how long to wait for a heartbeat of a process that has none; living ones send one every 20s")
	set.IntVar(&of.Interruptions, "interruptions", janitor.GitLabInterruptions, "interruptions after which a job goes to the dead set, as Ruby's max_retries_after_interruption; -1: it never does")
	set.IntVar(&of.PayloadLimit, "payload-limit", job.DefaultPayloadLimit, "the --payload-limit of the workers, in `BYTES`: larger jobs go to the dead set")
	dead.register(set)
	set.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to try; --doubt is added")
	return cmd
}

func returnToRuby(ctx context.Context, cmd *cobra.Command, i *inspect.Inspector, limit int, log *slog.Logger) error {
	returned, err := i.Return(ctx, limit, log)
	_ = show(cmd, returned, func(t *table) {
		t.row(fmt.Sprintf("%d recovered, %d of them moved to the dead set", returned.Recovered, returned.Dead))
		t.row(fmt.Sprintf("%d taken out of quarantine", returned.Quarantined))
	})
	return err
}

// lookAtGitLab shows the lists of GitLab's reliable fetch.
func lookAtGitLab(ctx context.Context, cmd *cobra.Command, i *inspect.Inspector) error {
	look, err := i.LookAtGitLab(ctx)
	if err != nil {
		return err
	}
	return show(cmd, look, func(t *table) {
		t.row("QUEUE", "PROCESS", "STATE", "JOBS")
		for _, list := range look.Lists {
			t.row(cmp.Or(list.Queue, list.Key), list.Process, string(list.State), list.Jobs)
		}
		t.row(fmt.Sprintf("%d jobs would be returned", look.Jobs))
		t.row(fmt.Sprintf("%d in GitLab's set of interrupted jobs", look.Interrupted))
	})
}

// returnFromGitLab recovers the lists of dead processes.
func returnFromGitLab(ctx context.Context, cmd *cobra.Command, i *inspect.Inspector, of inspect.FromGitLab) error {
	of.Found = func(look inspect.GitLabLook) {
		if look.Jobs > 0 {
			cmd.PrintErrf("%d jobs of processes without a heartbeat; waiting %v for one\n", look.Jobs, of.Doubt)
		}
	}
	result, err := i.ReturnFromGitLab(ctx, of)
	_ = show(cmd, result, func(t *table) {
		t.row(fmt.Sprintf("%d recovered, %d of them moved to the dead set", result.Recovered, result.Dead))
		t.row(fmt.Sprintf("lists: %d emptied, %d of living processes, %d unclear", result.Lists, result.Alive, result.Unclear))
		t.row(fmt.Sprintf("%d in GitLab's set of interrupted jobs", result.Interrupted))
	})
	if result.Held > 0 {
		cmd.PrintErrf("%d jobs are left to processes with a heartbeat. That of a killed process expires within %v: run this again then\n",
			result.Held, janitor.GitLabLifespan)
	}
	return err
}
